package udp

import "golang.org/x/sys/unix"

const (
	// The sysctls that limit SO_RCVBUF and SO_SNDBUF, for the error of AskBuffers.
	receiveSetting = "net.core.rmem_max"
	sendSetting    = "net.core.wmem_max"
	// Options that ignore those limits if the process has CAP_NET_ADMIN (see socket(7)).
	forceReceive = unix.SO_RCVBUFFORCE
	forceSend    = unix.SO_SNDBUFFORCE
)
