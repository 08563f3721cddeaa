//! The memory that glibc's allocator keeps for threads.

/// Lets a server begin anew with few arenas, unless it was told how many. glibc makes up to eight for each core, and each
/// keeps what its threads once had: under load a server on two cores kept sixteen of 60 MB. Only a process that begins can
/// be told. Where that fails, the server goes on as it is.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit() {
    use std::os::unix::process::CommandExt;

    const SETTING: &str = "MALLOC_ARENA_MAX";
    /// Of fewer, threads wait for each other.
    const ARENAS_MIN: usize = 4;
    let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    let is_told =
        std::env::var_os(SETTING).is_some() || tunables.to_string_lossy().contains("glibc.malloc.arena_max");
    let Ok(program) = std::env::current_exe() else { return };
    if is_told {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).env(SETTING, cores.max(ARENAS_MIN).to_string()).exec();
    tracing::debug!(?error, "the allocator keeps its arenas");
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit() {}
