//! Memory whose size follows from a parameter, such as operators' tables.
//!
//! Checked before allocation: against free memory when the plan is built ([`Workspace::check`]) and the memory budget
//! when executed ([`Workspace::check_against`]). So a far too long window is an error, not the end of the process.

use isochrony_segment::{free_memory, has_free_memory};

use crate::PlanError;

/// Less is not counted against the budget.
const UNCOUNTED_BYTES: u64 = 64 << 20;

/// A size, and the parameter that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspace {
    parameter: &'static str,
    value: u64,
    bytes: u64,
}

impl Workspace {
    /// `value` times `each` bytes, if free on this machine. Checked, not reserved: libraries allocate by themselves and
    /// abort on failure.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`].
    pub fn check(
        operator: &'static str,
        parameter: &'static str,
        value: u64,
        each: u64,
    ) -> Result<Self, PlanError> {
        let bytes = value.saturating_mul(each);
        let too_large = |limit, limited_by| PlanError::TooLarge {
            operator,
            node: None,
            parameter,
            value,
            bytes,
            limit,
            limited_by,
        };
        if !has_free_memory(bytes) {
            return Err(too_large(
                free_memory(),
                "of this machine's memory are free",
            ));
        }
        if bytes > UNCOUNTED_BYTES && !can_reserve(bytes) {
            let limited_by = "of this machine's memory are free, and the system limits this process to less (ulimit -v)";
            return Err(too_large(free_memory(), limited_by));
        }
        Ok(Self {
            parameter,
            value,
            bytes,
        })
    }

    pub(crate) fn check_against(
        &self,
        memory: u64,
        operator: &'static str,
        node: usize,
    ) -> Result<(), PlanError> {
        if self.bytes <= memory.max(UNCOUNTED_BYTES) {
            return Ok(());
        }
        Err(PlanError::TooLarge {
            operator,
            node: Some(node),
            parameter: self.parameter,
            value: self.value,
            bytes: self.bytes,
            limit: memory,
            limited_by: "is what memory= gives the run",
        })
    }
}

/// Whether the system grants so much contiguous address space.
fn can_reserve(bytes: u64) -> bool {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_with_the_parameter() {
        let error = Workspace::check("power", "window", 1 << 50, 64).unwrap_err();
        assert_eq!(error.code(), "too_large");
        let text = error.to_string();
        assert!(
            text.starts_with("power: window=1125899906842624 needs 72057594037927936 bytes"),
            "{text}"
        );
        assert!(Workspace::check("power", "window", u64::MAX, u64::MAX).is_err());
    }

    #[test]
    fn small_tables_run_with_little_memory_and_large_ones_need_as_much() {
        let small = Workspace::check("power", "window", 4096, 64).unwrap();
        assert_eq!(small.check_against(1024, "power", 2), Ok(()));
        let large = Workspace::check("power", "window", 1 << 21, 64).unwrap();
        assert_eq!(large.check_against(128 << 20, "power", 2), Ok(()));
        let error = large.check_against(100 << 20, "power", 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "power (node 2): window=2097152 needs 134217728 bytes of tables, but 104857600 bytes is what memory= gives the run; \
             make window smaller, or raise memory="
        );
    }
}
