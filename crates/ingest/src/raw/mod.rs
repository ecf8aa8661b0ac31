//! Raw recordings: headerless samples in files named by a layout.
//!
//! Signals are imported one after the other, each in the order of recording, which is sequential on both disks.
//! Interleaving by time would alternate between all folders and shards.

mod feed;
mod follow;
mod order;
mod plan;
mod read_ahead;

use std::path::Path;
use std::time::Duration;

use isochrony_runtime::Interrupt;
use isochrony_segment::ByteOrder;
use isochrony_store::{SampleFormat, Store, StoreError};
use isochrony_time::Rate;

use crate::progress::Meter;
use crate::session::{Session, SessionOptions, Spec, Summary};
use crate::{DiscoverOptions, IngestError, Layout, OnProgress, Preset, Symlinks, discover};

/// A folder of raw recordings, and how to import it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RawOptions {
    /// What the paths mean.
    pub layout: Layout,
    /// Byte order of the samples.
    pub order: ByteOrder,
    /// Type, nominal rate, unit and calibration of the signals.
    pub spec: Spec,
    /// Import the whole samples of files that end within one, instead of refusing them.
    pub partial: bool,
    /// Policy for symbolic links.
    pub symlinks: Symlinks,
    /// Clock, jumps and commits.
    pub session: SessionOptions,
    /// Continue to watch the folder.
    pub follow: Option<Follow>,
    /// Ends the import after the current file.
    pub interrupt: Interrupt,
}

/// How to follow a growing folder. A file is complete at its full length, when it no longer grows and a later one of
/// its signal exists, or when unchanged for `settle`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Follow {
    /// Time between polls.
    pub interval: Duration,
    /// Time without change after which a file is complete.
    pub settle: Duration,
    /// Samples of a complete file, if fixed.
    pub file_samples: Option<u64>,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            settle: Duration::from_secs(10),
            file_samples: None,
        }
    }
}

impl RawOptions {
    /// Recordings of a layout, with default options.
    #[must_use]
    pub fn new(
        layout: Layout,
        format: impl Into<SampleFormat>,
        order: ByteOrder,
        rate: Rate,
    ) -> Self {
        Self {
            layout,
            order,
            spec: Spec::new(format, rate),
            partial: false,
            symlinks: Symlinks::default(),
            session: SessionOptions::default(),
            follow: None,
            interrupt: Interrupt::default(),
        }
    }

    /// Recordings of a preset.
    ///
    /// # Errors
    /// [`IngestError::UnknownPreset`].
    pub fn preset(name: &str) -> Result<Self, IngestError> {
        let preset = Preset::find(name)?;
        let (format, order) = SampleFormat::parse(preset.dtype).map_err(StoreError::from)?;
        let rate = Rate::new(preset.rate.0, preset.rate.1).map_err(StoreError::from)?;
        let mut options = Self::new(preset.template.parse()?, format, order, rate);
        options.spec.unit = preset.unit.into();
        Ok(options)
    }
}

/// Imports the raw recordings of a folder into a store that is open for writing. A repetition takes only what is new;
/// after an interruption it continues from the last commit.
///
/// With [`RawOptions::follow`] it returns only when interrupted.
///
/// # Errors
/// If the folder cannot be listed or the store not be written; what is committed stays. Other problems are in
/// [`Summary::problems`].
///
/// ```
/// use isochrony_ingest::{RawOptions, import_raw};
/// use isochrony_segment::{ByteOrder, DType};
/// use isochrony_store::{Mode, Store};
/// use isochrony_time::Rate;
///
/// let folder = tempfile::tempdir()?;
/// std::fs::create_dir(folder.path().join("stn_10"))?;
/// for epoch in [1267401600, 1267401601, 1267401605] {
///     std::fs::write(folder.path().join(format!("stn_10/p_{epoch}.raw")), [1, 0].repeat(100))?;
/// }
/// let store = Store::open(folder.path().join("water.iso"), Mode::Create)?;
/// let layout = "{station}/{sensor}_{epoch}.raw".parse()?;
/// let options = RawOptions::new(layout, DType::I16, ByteOrder::Little, Rate::from_hz(100)?);
/// let summary = import_raw(&store, folder.path(), &options, None)?;
/// assert_eq!(summary.files, 3);
/// assert_eq!(summary.signals[0].name, "stn_10/p");
/// assert_eq!((summary.signals[0].samples, summary.signals[0].gaps), (300, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn import_raw(
    store: &Store,
    source: &Path,
    options: &RawOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<Summary, IngestError> {
    let mut session = Session::new(store, options.session.clone())?;
    let mut meter = Meter::new(progress);
    let discovery = DiscoverOptions {
        symlinks: options.symlinks,
        leave_out: Some(store.path().into()),
        interrupt: options.interrupt.clone(),
    };
    let outcome = match options.follow {
        Some(follow) => follow::follow(
            &mut session,
            source,
            options,
            &discovery,
            follow,
            &mut meter,
        ),
        None => discover(source, &options.layout, &discovery).and_then(|mut catalogue| {
            session.problems().extend(catalogue.take_problems());
            feed::feed(&mut session, catalogue, options, &mut meter)
        }),
    };
    match outcome {
        Err(IngestError::Cancelled) => session.cancelled(),
        outcome => outcome?,
    }
    meter.finish();
    session.finish()
}

fn whole(size: u64, sample: u64, partial: bool) -> Result<u64, IngestError> {
    let rest = size % sample;
    match size - rest {
        _ if size == 0 => Err(IngestError::EmptyFile),
        whole if whole == 0 || (rest != 0 && !partial) => Err(IngestError::PartialSample {
            bytes: size,
            size: sample,
            rest,
            whole: whole / sample,
        }),
        whole => Ok(whole),
    }
}
