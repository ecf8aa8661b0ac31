//! Names and identities of this machine: host, system, processor, boot.

/// Name of this machine in its network.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Operating system and version, such as `Linux 6.12.0`.
#[must_use]
pub fn system_version() -> String {
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release()].map(|word| word.to_string_lossy());
    words.join(" ")
}

/// Name of the processor. None if unknown.
#[must_use]
pub fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Identity of the running system, new after each start. None if unknown.
#[must_use]
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_shell_prints() {
        let printed = |arguments: &[&str]| {
            let output = std::process::Command::new("uname").args(arguments).output();
            String::from_utf8(output.unwrap().stdout)
                .unwrap()
                .trim()
                .to_owned()
        };
        assert_eq!(host_name(), printed(&["-n"]));
        assert_eq!(system_version(), printed(&["-s", "-r"]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_boot_has_one_identity() {
        let found = boot_id().unwrap();
        assert_eq!(found.len(), 36, "{found}");
        assert_eq!(boot_id(), Some(found));
    }
}
