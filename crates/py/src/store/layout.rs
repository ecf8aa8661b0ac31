//! Meaning of recordings' paths.

use pyo3::prelude::*;

use crate::errors::Result;

/// Meaning of the paths in a folder of recordings.
///
/// Parameters:
///     template: path below the folder with fields in braces, like
///         `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw`; the fields other than time, joined by `/`, name the
///         signal.
///
/// Raises:
///     isochrony.ImportRefusedError: an invalid template; the message names the field.
///
/// >>> from isochrony._native import Layout
/// >>> Layout("{station}/p_{epoch}.raw").match("stn_10/p_1267401600.raw")
/// ('stn_10', (1267401600000000000, 1000000000))
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Layout {
    layout: isochrony_ingest::Layout,
}

#[pymethods]
impl Layout {
    #[new]
    #[pyo3(signature = (template, /))]
    fn new(template: &str) -> Result<Self> {
        let layout = template.parse()?;
        Ok(Self { layout })
    }

    /// Reads the path of a file below the folder, with `/` between components.
    ///
    /// Returns:
    ///     Signal name (empty if the template has no name fields), and the time of the first sample with its
    ///     resolution, both in ns, as a pair; None instead of the pair if the template has no time.
    ///
    /// Raises:
    ///     isochrony.ImportRefusedError: the path does not match the template; the message says where.
    #[pyo3(name = "match")]
    fn read(&self, path: &str) -> Result<(String, Option<(i64, i64)>)> {
        let found = self.layout.read(path)?;
        let stamp = found.stamp.map(|stamp| (stamp.ns, stamp.resolution_ns));
        Ok((found.signal, stamp))
    }

    fn __repr__(&self) -> String {
        format!("Layout({:?})", self.layout.to_string())
    }
}
