//! `frostline bench`.
