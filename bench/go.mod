module github.com/quivernet/quiver/bench

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	github.com/quivernet/quiver v0.0.0
)

require (
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/quivernet/quiver => ../
