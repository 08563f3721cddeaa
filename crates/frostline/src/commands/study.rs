//! The published frozen-tier study: its data, its two questions and its figures.
