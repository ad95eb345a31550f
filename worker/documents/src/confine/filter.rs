//! The system calls that a reader of documents needs: memory, its three pipes, its own end. The kernel answers every
//! other with "not implemented", so a parser that has been taken over can neither open, connect, start nor kill.
use std::io::{Error, Result};

use libc::{
    MAP_ANONYMOUS, PROT_EXEC, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_exit,
    SYS_exit_group, SYS_futex, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_gettimeofday, SYS_lseek,
    SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_read,
    SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield,
    SYS_sigaltstack, SYS_tgkill, SYS_write, SYS_writev,
};
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Whatever their arguments.
const FREE: [i64; 22] = [
    SYS_brk,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_close,
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
    SYS_getpid,
    SYS_getrandom,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_madvise,
    SYS_mremap,
    SYS_munmap,
    SYS_nanosleep,
    SYS_restart_syscall,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_yield,
    SYS_sigaltstack,
    // Threads exist already; no other is needed.
    libc::SYS_set_robust_list,
];

/// For all threads of this process, for good. `status` is the one file that may be read.
pub(super) fn apply(status: i32) -> Result<()> {
    let program = program(status).map_err(Error::other)?;
    apply_filter_all_threads(&program).map_err(Error::other)
}

fn program(status: i32) -> std::result::Result<BpfProgram, seccompiler::BackendError> {
    let pid = u64::try_from(getpid().as_raw_nonzero().get()).unwrap_or_default();
    let status = u64::try_from(status).unwrap_or_default();
    let none = SeccompCmpOp::MaskedEq(u64::from(PROT_EXEC.cast_unsigned()));
    let anonymous = u64::from(MAP_ANONYMOUS.cast_unsigned());
    let mut rules: Vec<(i64, Vec<SeccompRule>)> =
        FREE.into_iter().map(|call| (call, Vec::new())).collect();
    // By number, so that a descriptor left open by whoever started the worker is of no use.
    rules.push((SYS_read, vec![is(0, 0)?, is(0, status)?]));
    rules.push((SYS_lseek, vec![is(0, status)?]));
    rules.push((SYS_write, vec![is(0, 1)?, is(0, 2)?]));
    rules.push((SYS_writev, vec![is(0, 1)?, is(0, 2)?]));
    // To abort, it sends itself a signal.
    rules.push((SYS_tgkill, vec![is(0, pid)?]));
    rules.push((SYS_mprotect, vec![SeccompRule::new(vec![condition(2, none.clone(), 0)?])?]));
    let fresh = condition(3, SeccompCmpOp::MaskedEq(anonymous), anonymous)?;
    rules.push((SYS_mmap, vec![SeccompRule::new(vec![condition(2, none, 0)?, fresh])?]));
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules.into_iter().collect(), missing, SeccompAction::Allow, arch)?.try_into()
}

fn is(argument: u8, value: u64) -> std::result::Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, value)?])
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> std::result::Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
