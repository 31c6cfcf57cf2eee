package udp

import "golang.org/x/sys/unix"

const (
	receiveSetting = "net.core.rmem_max"
	sendSetting    = "net.core.wmem_max"
	forceReceive   = unix.SO_RCVBUFFORCE // for processes with CAP_NET_ADMIN
	forceSend      = unix.SO_SNDBUFFORCE
)
