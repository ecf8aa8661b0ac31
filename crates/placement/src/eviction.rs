//! Eviction policies of a cache of bounded bytes.
