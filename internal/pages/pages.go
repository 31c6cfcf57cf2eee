// Package pages shares the memory of bulk among all connections: pages that are as long as the messages of which bulk is made, half of the
// longest. The garbage collector takes back those that nobody needs.
package pages

import "sync"

// Size is how long a page is, in bytes.
const Size = 32 << 10

// Page is memory that whoever took it has alone.
type Page [Size]byte

var spare = sync.Pool{New: func() any { return new(Page) }}

// Take returns a page, with whatever was in it. It is safe for concurrent use, as Give is.
func Take() *Page { return spare.Get().(*Page) }

// Give takes back a page of which the caller keeps nothing.
func Give(p *Page) { spare.Put(p) }
