package control

import (
	"testing"

	"github.com/quivernet/quiver/internal/sealed"
)

func TestSealedMessages(t *testing.T) {
	ids := []sealed.ID{{1}, {2, 7: 3}}
	most := make([]sealed.ID, maxSealedIDs)
	for _, test := range []struct {
		payload []byte
		want    any
	}{
		{AppendSealed(nil, IDSealedOpen, 1), Sealed{IDSealedOpen, 1, nil}},
		{AppendSealed(nil, IDSealedIDs, 1, ids...), Sealed{IDSealedIDs, 1, ids}},
		{AppendSealed(nil, IDSealedIDs, 1<<32-1, most...), Sealed{IDSealedIDs, 1<<32 - 1, most}},
		{AppendSealed(nil, IDSealedShut, 300), Sealed{IDSealedShut, 300, nil}},
		{AppendSealed(nil, IDSealedAsk, 300), Sealed{IDSealedAsk, 300, nil}},
	} {
		requireMessage(t, test.want, test.payload)
	}
	for _, bad := range [][]byte{
		AppendSealed(nil, IDSealedShut, 0),
		AppendSealed(nil, IDSealedIDs, 1),
		AppendSealed(nil, IDSealedIDs, 1, make([]sealed.ID, maxSealedIDs+1)...),
		{IDSealedShut, 0x80, 0x80, 0x80, 0x80, 0x10},
	} {
		_, err := Parse(bad)
		requireKind(t, PayloadFail, err)
	}
}
