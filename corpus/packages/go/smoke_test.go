package corpus

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// read is a minimal reader.
func read(data []byte) (map[Text]Tensor, error) {
	if len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return nil, errors.New("no header")
	}
	size := 8 + binary.LittleEndian.Uint64(data)
	var header map[Text]struct {
		DType   string
		Shape   []uint64
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:size], &header); err != nil {
		return nil, err
	}
	tensors := map[Text]Tensor{}
	for name, entry := range header {
		body := data[size:][entry.Offsets[0]:entry.Offsets[1]]
		sum := sha256.Sum256(body)
		tensors[name] = Tensor{name, entry.DType, entry.Shape, uint64(len(body)), hex.EncodeToString(sum[:])}
	}
	delete(tensors, "__metadata__")
	return tensors, nil
}

func TestSmoke(t *testing.T) {
	for _, c := range Cases() {
		if !c.Smoke || c.Kind != "read" {
			continue
		}
		data, _ := c.Bytes()
		got, err := read(data)
		if (err == nil) != (c.Expect.Outcome == "accept") {
			t.Errorf("%s: %v, expected %s", c.ID, err, c.Expect.Outcome)
		}
		for _, want := range append([]Tensor{}, c.Expect.contentTensors()...) {
			if !reflect.DeepEqual(got[want.Name], want) {
				t.Errorf("%s: %v instead of %v", c.ID, got[want.Name], want)
			}
		}
	}
}

func (e Expectation) contentTensors() []Tensor {
	if e.Content == nil {
		return nil
	}
	return e.Content.Tensors
}
