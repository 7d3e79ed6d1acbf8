//! File systems whose files are not data: reading them shows or changes the state of the machine.
//!
//! A root may be as wide as `/`. Files below `/proc` and the like look regular to `fstat`, so they are told by the file
//! system they are on.

use std::os::fd::AsFd;

use rustix::{fs, io::Errno};

/// `f_type` of file systems that are interfaces of the kernel.
const SPECIAL: [u64; 18] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x0000_1cd1, // devpts
    0xcafe_4a11, // bpf
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
    0x6573_5543, // fusectl
    0x6e73_6673, // nsfs
    0xf97c_ff8c, // selinux
    0x4353_4345, // smackfs family
];

/// Returns whether an open file is on a special file system.
pub(super) fn is_special(handle: impl AsFd) -> Result<bool, Errno> {
    let kind = fs::fstatfs(handle)?.f_type;
    // The type is signed on some platforms and of 32 bits on others.
    Ok(SPECIAL.contains(&u64::from(kind as u32)))
}
