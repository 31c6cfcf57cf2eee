//go:build darwin || freebsd

package udp

const (
	// The sysctl that limits SO_RCVBUF and SO_SNDBUF, for the error of AskBuffers.
	receiveSetting = "kern.ipc.maxsockbuf"
	sendSetting    = "kern.ipc.maxsockbuf"
	// No option ignores that limit.
	forceReceive = 0
	forceSend    = 0
)
