//! What glibc's allocator keeps of memory that was freed.

/// Lets a server begin anew with an allocator that returns memory, unless it was told how many arenas to have. Only a
/// process that begins can be told. Where that fails, the server goes on as it is.
///
/// glibc makes up to eight arenas for each core, and each keeps what its threads once had. It also takes ever larger
/// blocks from them, up to 32 MiB, once such a block was freed, and then cannot return what lies between those in use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit() {
    use std::os::unix::process::CommandExt;

    const ARENAS: &str = "MALLOC_ARENA_MAX";
    /// Of one alone, threads wait for each other.
    const ARENAS_MIN: usize = 2;
    /// Larger blocks are mapped by themselves, and unmapped when they are freed. A number that is given never grows.
    const MAPPED: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "524288");
    let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    let is_told = std::env::var_os(ARENAS).is_some() || tunables.to_string_lossy().contains("glibc.malloc.");
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
    command.args(arguments).env(ARENAS, cores.max(ARENAS_MIN).to_string());
    if std::env::var_os(MAPPED.0).is_none() {
        command.env(MAPPED.0, MAPPED.1);
    }
    let error = command.exec();
    tracing::debug!(?error, "the allocator keeps what is freed");
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit() {}
