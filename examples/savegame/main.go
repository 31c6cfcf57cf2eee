// Savegame keeps versions of save games on a server, and carries them from machine to machine,
// over QUIC. A save is a file or a folder. Only what has changed is sent, interrupted
// transfers continue where they stopped, and two machines never lose a save to each other.
//
//	savegame serve                         on the server; it prints the line to paste on a machine
//	savegame login HOST:PORT CODE          there
//	savegame put ~/games/world             a version, and the next one
//	savegame invite                        prints the line for the next machine, and there
//	savegame get world ~/games/world
//	savegame history world
//	savegame get world@3 old-world
//	tar c world | savegame put - --to world.tar
//	savegame demo --rtt 50ms --loss 1%     a server and its clients in one process, measured
//
// The commands are in package command, and what they are built on is in the packages beside it.
package main

import (
	"os"
	"runtime/debug"

	"github.com/quivernet/quiver/examples/savegame/command"
)

func main() {
	// Unless the user has set it, quic-go writes warnings about the sizes of
	// kernel buffers to standard error.
	const variable = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if os.Getenv(variable) == "" {
		_ = os.Setenv(variable, "true")
	}
	// With Go's default of 100, a server that receives 1 GiB uses more than 64 MB.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	os.Exit(command.Run(command.Signals(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
