//! `Store.import_raw`: headerless samples in files named by a layout.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};

use isochrony_ingest::{Follow, ImportProgress, Preset, RawOptions, Summary};
use isochrony_runtime::POLL_INTERVAL;
use isochrony_store::SampleFormat;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{PackageError, Result};
use crate::store::Store;
use crate::store::ingest::{describe, session_options};
use crate::time::RateArg;

#[pymethods]
impl Store {
    /// Imports a folder of raw recordings: headerless samples in files named by a layout. A repeated import takes only
    /// what is new.
    ///
    /// Parameters:
    ///     src: the folder.
    ///     layout: template of the paths; see `Layout`.
    ///     preset: a known layout with its dtype and rate, such as "censam".
    ///     dtype: NumPy spelling with byte order, such as "<i2"; or "ci16_le" or "ci16_be" for pairs of int16, read as
    ///         complex64.
    ///     rate: nominal rate in Hz, as for `create`.
    ///     unit: unit of the samples.
    ///     gap_slip: as for `ingest`.
    ///     alpha: as for `ingest`.
    ///     initial_rate: as for `ingest`.
    ///     max_gap: as for `ingest`.
    ///     value_jump: as for `ingest`.
    ///     partial: import the whole samples of truncated files.
    ///     follow: watch the folder until interrupted.
    ///     progress: called at most ten times a second with bytes done, total bytes, files done, total files.
    ///
    /// Returns:
    ///     The summary, as `Ingest.finish`.
    ///
    /// Raises:
    ///     isochrony.ImportRefusedError: contradictory options, or a folder that cannot be listed.
    ///     KeyboardInterrupt: unless `follow`; what was imported is committed.
    ///
    /// >>> import isochrony as iso, numpy as np, pathlib, tempfile
    /// >>> folder = pathlib.Path(tempfile.mkdtemp())
    /// >>> for second in (0, 1):
    /// ...     np.arange(100, dtype="<i2").tofile(folder / f"p_{1_267_401_600 + second}.raw")
    /// >>> store = iso.open(folder / "water.iso", "x")
    /// >>> summary = store.import_raw(folder, layout="{station}_{epoch}.raw", dtype="<i2", rate=100)
    /// >>> [(one["name"], one["samples"]) for one in summary["signals"]]
    /// [('p', 200)]
    #[pyo3(signature = (src, *, layout=None, preset=None, dtype=None, rate=None, unit=None, gap_slip=None, alpha=None,
                        initial_rate=None, max_gap=None, value_jump=None, partial=false, follow=false, progress=None))]
    #[allow(clippy::too_many_arguments)]
    fn import_raw<'py>(
        &self,
        py: Python<'py>,
        src: PathBuf,
        layout: Option<&str>,
        preset: Option<&str>,
        dtype: Option<&Bound<'py, PyAny>>,
        rate: Option<RateArg>,
        unit: Option<&str>,
        gap_slip: Option<&Bound<'py, PyAny>>,
        alpha: Option<f64>,
        initial_rate: Option<RateArg>,
        max_gap: Option<&Bound<'py, PyAny>>,
        value_jump: Option<f64>,
        partial: bool,
        follow: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        let mut options = raw_options(layout, preset, dtype, rate)?;
        if let Some(unit) = unit {
            options.spec.unit = unit.to_owned();
        }
        options.session = session_options(gap_slip, alpha, initial_rate, max_gap, value_jump)?;
        options.partial = partial;
        options.follow = follow.then(|| Follow {
            file_samples: preset
                .and_then(|name| Preset::find(name).ok())
                .and_then(|known| known.file_samples),
            ..Follow::default()
        });
        let (summary, raised) =
            crate::interpreter::detach(py, || self.watched(&src, &options, progress))?;
        match raised {
            Some(error) if !(follow && is_interrupt(py, &error)) => Err(error.into()),
            _ => Ok(describe(py, &summary)?),
        }
    }
}

fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py)
}

fn raw_options(
    layout: Option<&str>,
    preset: Option<&str>,
    dtype: Option<&Bound<'_, PyAny>>,
    rate: Option<RateArg>,
) -> Result<RawOptions> {
    let dtype = match dtype {
        Some(dtype) => Some(SampleFormat::parse(&crate::signal::options::dtype_text(
            dtype,
        )?)?),
        None => None,
    };
    let mut options = match preset {
        Some(preset) => RawOptions::preset(preset)?,
        None => {
            let (Some(layout), Some((format, order)), Some(rate)) = (layout, dtype, &rate) else {
                let message = "raw recordings need layout=, dtype= and rate=, or preset=; for example \
                               layout=\"{station}/{station}_{epoch}.raw\", dtype=\"<i2\", rate=2000";
                return Err(PackageError::new(
                    "ImportRefusedError",
                    "invalid_option",
                    message.into(),
                )
                .into());
            };
            RawOptions::new(layout.parse()?, format, order, rate.0)
        }
    };
    if let Some(layout) = layout {
        options.layout = layout.parse()?;
    }
    if let Some((format, order)) = dtype {
        options.spec.format = format;
        options.order = order;
    }
    if let Some(rate) = rate {
        options.spec.rate = rate.0;
    }
    Ok(options)
}

impl Store {
    /// Imports in another thread; Ctrl-C ends the import after the current file. Also returns Python's exception.
    fn watched(
        &self,
        src: &std::path::Path,
        options: &RawOptions,
        progress: Option<Py<PyAny>>,
    ) -> Result<(Summary, Option<PyErr>)> {
        let (sender, receiver) = channel::<[u64; 4]>();
        let store = &self.shared.store;
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                // The receiver is dropped only while unwinding.
                let mut on = |now: &ImportProgress| {
                    let [bytes, files] = [&now.bytes, &now.files];
                    let _ = sender.send([
                        bytes.done(),
                        bytes.total().unwrap_or(0),
                        files.done(),
                        files.total().unwrap_or(0),
                    ]);
                };
                isochrony_ingest::import_raw(store, src, options, Some(&mut on))
            });
            let mut raised = None;
            loop {
                let news = match receiver.recv_timeout(POLL_INTERVAL) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if raised.is_some() {
                    continue;
                }
                let looked = crate::interpreter::attach(|py| {
                    py.check_signals()?;
                    if let (Some(progress), Some(news)) = (&progress, news) {
                        progress.call1(py, <(_, _, _, _)>::from(news))?;
                    }
                    Ok(())
                });
                if let Err(error) = looked {
                    raised = Some(error);
                    options.interrupt.request();
                }
            }
            match worker.join() {
                Ok(summary) => Ok((summary?, raised)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}
