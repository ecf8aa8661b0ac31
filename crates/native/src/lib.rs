//! The extension module `isochrony._native`. All of it is in `isochrony-py`, which other extension modules link, too;
//! apart from that it is compiled once, whatever flags the module is linked with.

pub use isochrony_py::_native;
