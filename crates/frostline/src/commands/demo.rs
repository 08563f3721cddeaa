//! `frostline demo`.
