//! A cache of pieces of remote objects on a host's own disk, shared by all processes of the host.
