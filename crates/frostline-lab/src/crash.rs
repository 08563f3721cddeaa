//! What a power cut leaves: writes and flushes of a device are recorded, cut where power may fail, and what
//! is then on the device is looked at.
//!
//! [`log`] is the engine and needs no kernel: it keeps the record, makes the cuts and builds the bytes that
//! a device may hold after each. Our own write-ahead log, cache and volumes are tested with it.

pub mod log;
