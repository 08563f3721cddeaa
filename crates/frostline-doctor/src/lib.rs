//! Finds what slows a host down and says what to type. Reads only.
