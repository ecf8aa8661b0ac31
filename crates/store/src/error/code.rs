//! Stable names of the kinds of error.

use super::StoreError;

impl StoreError {
    /// Stable name of the kind of error, in `snake_case`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAStore { .. } => "not_a_store",
            Self::StoreExists { .. } => "store_exists",
            Self::ReadOnly { .. } => "read_only",
            Self::Closed { .. } => "closed",
            Self::Io { .. } => "io",
            Self::InvalidName { .. } => "invalid_name",
            Self::NoSuchSignal { .. } => "no_such_signal",
            Self::SignalExists { .. } => "signal_exists",
            Self::NameOfView { .. } => "name_of_view",
            Self::SignalInsideSignal { .. } => "signal_inside_signal",
            Self::SignalRemoved { .. } => "signal_removed",
            Self::InvalidPattern { .. } => "invalid_pattern",
            Self::InvalidRange { .. } => "invalid_range",
            Self::OutOfBounds { .. } => "out_of_bounds",
            Self::GapInSelection { .. } => "gap_in_selection",
            Self::ClockStepInSelection { .. } => "clock_step_in_selection",
            Self::NoCivilTime { .. } => "no_civil_time",
            Self::NoSuchEvent { .. } => "no_such_event",
            Self::DTypeMismatch { .. } => "dtype_mismatch",
            Self::PartialSample { .. } => "partial_sample",
            Self::InvalidLength { .. } => "invalid_length",
            Self::WriteIntoGap { .. } => "write_into_gap",
            Self::InvalidAttributes { .. } => "invalid_attributes",
            Self::InvalidOption { .. } => "invalid_option",
            Self::UnknownStrategy { .. } => "unknown_strategy",
            Self::RefusedCalibration { .. } => "refused_calibration",
            Self::BadProfile { .. } => "bad_profile",
            Self::TooLarge { .. } => "too_large",
            Self::CannotGather { .. } => "cannot_gather",
            Self::DamagedTable { .. } => "damaged_table",
            Self::MissingTable { .. } => "missing_table",
            Self::MissingFolder { .. } => "missing_folder",
            Self::Interrupted { .. } => "interrupted",
            Self::Locked { .. } => "locked",
            Self::NetworkFileSystem { .. } => "network_file_system",
            Self::DiskFull { .. } => "disk_full",
            Self::Poisoned { .. } => "poisoned",
            Self::Forked { .. } => "forked",
            Self::NewerFormat { .. } => "newer_format",
            Self::DamagedFile { .. } => "damaged_file",
            Self::MissingSamples { .. } => "missing_samples",
            Self::ForeignShard { .. } => "foreign_shard",
            Self::InvalidCodec { .. } => "invalid_codec",
            Self::Undecodable { .. } => "undecodable",
            Self::Sealed { .. } => "sealed",
            Self::StoreVanished { .. } => "store_vanished",
            Self::StoreInsideStore { .. } => "store_inside_store",
            Self::Occupied { .. } => "occupied",
            Self::InTheWay { .. } => "in_the_way",
            Self::NeedsRecovery { .. } => "needs_recovery",
            Self::Time(error) => error.code(),
            Self::Segment(error) => error.code(),
        }
    }
}
