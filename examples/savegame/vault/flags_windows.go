package vault

// Flags for opening files: Windows has neither pipes nor devices among its files, and openOwn finds links without them.
const (
	nonBlock = 0
	noFollow = 0
)
