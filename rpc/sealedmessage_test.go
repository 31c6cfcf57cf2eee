package rpc

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
		{appendSealed(nil, idSealedOpen, 1), sealedOpen{1}},
		{appendSealed(nil, idSealedIDs, 1, ids...), sealedIDs{1, ids}},
		{appendSealed(nil, idSealedIDs, 1<<32-1, most...), sealedIDs{1<<32 - 1, most}},
		{appendSealed(nil, idSealedShut, 300), sealedShut{300}},
		{appendSealed(nil, idSealedAsk, 300), sealedAsk{300}},
	} {
		requireMessage(t, test.want, test.payload)
	}
	for _, bad := range [][]byte{
		appendSealed(nil, idSealedShut, 0),
		appendSealed(nil, idSealedIDs, 1),
		appendSealed(nil, idSealedIDs, 1, make([]sealed.ID, maxSealedIDs+1)...),
		{idSealedShut, 0x80, 0x80, 0x80, 0x80, 0x10},
	} {
		_, err := parseControl(bad)
		requireCode(t, ControlChannelMessagePayloadFail, err)
	}
}
