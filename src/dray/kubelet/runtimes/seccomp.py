"""The system calls that a container with `seccompProfile: RuntimeDefault` may make: those that containerd's default allows. Pure.

Everything that is not named fails with EPERM. Some calls need a capability, some are for one architecture only, some
look at an argument. `tests/e2e/test_oci_agrees.py` holds it against what a real containerd makes of the same pod.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

PROFILES: Final = Path("/var/lib/kubelet/seccomp")
"""Where a node's own profiles are, unless the kubelet's root is elsewhere."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ALLOWED: Final = _words("""
    _llseek _newselect accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown
    chown32 clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
    clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
    eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark
    fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock
    fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
    futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu
    getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer
    getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32
    getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents
    io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount
    listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules
    lsm_set_self_attr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir
    mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect mq_getsetattr mq_notify mq_open
    mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget
    msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 pause
    pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl
    pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read
    readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages
    removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
    rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
    rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
    sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
    sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64
    send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid
    setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid
    setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid
    setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask
    sigreturn socketcall socketpair splice stat stat64 statfs statfs64 statmount statx symlink symlinkat sync
    sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime
    timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime
    timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat uretprobe utime
    utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev
""")
_WITH_CAPABILITY: Final = {
    "CAP_BPF": ("bpf",),
    "CAP_DAC_READ_SEARCH": ("open_by_handle_at",),
    "CAP_PERFMON": ("perf_event_open",),
    "CAP_SYSLOG": ("syslog",),
    "CAP_SYS_ADMIN": _words(
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount"
        " open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare"
    ),
    "CAP_SYS_BOOT": ("reboot",),
    "CAP_SYS_CHROOT": ("chroot",),
    "CAP_SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "CAP_SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
    "CAP_SYS_PACCT": ("acct",),
    "CAP_SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise"),
    "CAP_SYS_RAWIO": ("ioperm", "iopl"),
    "CAP_SYS_TIME": ("clock_settime", "clock_settime64", "settimeofday", "stime"),
    "CAP_SYS_TTY_CONFIG": ("vhangup",),
}
# By the machine as the kernel names it: how libseccomp calls what it can run, and the calls that only it has.
_MACHINES: Final = {
    "x86_64": (("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"), ("arch_prctl", "modify_ldt")),
    "aarch64": (
        ("SCMP_ARCH_ARM", "SCMP_ARCH_AARCH64"),
        (
            "arm_fadvise64_64",
            "arm_sync_file_range",
            "breakpoint",
            "cacheflush",
            "set_tls",
            "sync_file_range2",
        ),
    ),
    "ppc64le": ((), ("swapcontext", "sync_file_range2")),
    "riscv64": (("SCMP_ARCH_RISCV64",), ("riscv_flush_icache", "riscv_hwprobe")),
    "s390x": (
        ("SCMP_ARCH_S390", "SCMP_ARCH_S390X"),
        ("s390_pci_mmio_read", "s390_pci_mmio_write", "s390_runtime_instr"),
    ),
}
_AF_ALG, _AF_VSOCK = 38, 40
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_NEW_NAMESPACES: Final = 0x7E020000
_ENOSYS: Final = 38

Rule = dict[str, Any]


def default_profile(capabilities: Collection[str], machine: str) -> dict[str, Any]:
    """`linux.seccomp` of an OCI spec, for a container with this bounding set. ptrace needs Linux 4.8, which all have."""
    architectures, own = _MACHINES.get(machine, ((), ()))
    names = {*_ALLOWED, *own, "process_vm_readv", "process_vm_writev", "ptrace"}
    for capability in capabilities:
        names.update(_WITH_CAPABILITY.get(capability, ()))
    rules = [_allow(*sorted(names)), *_sockets(), *(_personality(value) for value in _PERSONALITIES)]
    if "CAP_SYS_ADMIN" not in capabilities:
        rules += _no_new_namespaces(machine)
    return {"defaultAction": "SCMP_ACT_ERRNO", "architectures": list(architectures), "syscalls": rules}


def _allow(*names: str) -> Rule:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW"}


def _when(name: str, index: int, value: int, operator: str) -> Rule:
    return _allow(name) | {"args": [{"index": index, "value": value, "op": operator}]}


def _sockets() -> list[Rule]:
    """All families but AF_ALG and AF_VSOCK. Three ranges, because several conditions on one argument are joined by "or"."""
    return [
        _when("socket", 0, _AF_ALG, "SCMP_CMP_LT"),
        _when("socket", 0, _AF_ALG + 1, "SCMP_CMP_EQ"),
        _when("socket", 0, _AF_VSOCK, "SCMP_CMP_GT"),
    ]


def _personality(value: int) -> Rule:
    return _when("personality", 0, value, "SCMP_CMP_EQ")


def _no_new_namespaces(machine: str) -> list[Rule]:
    """clone without any flag for a namespace; clone3, whose flags cannot be seen, does as if it did not exist."""
    index = 1 if machine == "s390x" else 0
    argument = {"index": index, "value": _NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    return [
        _allow("clone") | {"args": [argument]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
    ]
