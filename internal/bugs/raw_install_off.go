//go:build !bug_raw_install

package bugs

// RawInstall: an InstallSnapshot goes to raft as it comes.
const RawInstall = false
