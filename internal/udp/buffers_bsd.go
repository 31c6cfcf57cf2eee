//go:build darwin || freebsd

package udp

const (
	receiveSetting = "kern.ipc.maxsockbuf"
	sendSetting    = "kern.ipc.maxsockbuf"
	forceReceive   = 0 // there is no way past the limit
	forceSend      = 0
)
