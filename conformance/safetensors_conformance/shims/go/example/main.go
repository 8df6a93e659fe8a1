// An example of the shim with a minimal reader, which checks almost nothing. In your own module, run:
//
//	go build -o reader . && stc check-protocol --impl "cmd:./reader"
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"

	"example.org/shims/stc"
)

func read(path string, withData bool, answer *stc.Answer) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return errors.New("the header leaves the file")
	}
	length := binary.LittleEndian.Uint64(file)
	data := file[8+length:]
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+length], &header); err != nil {
		return err
	}
	var metadata map[string]string
	for name, raw := range header {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &metadata); err != nil {
				return err
			}
			continue
		}
		var entry struct {
			DType   string    `json:"dtype"`
			Shape   []uint64  `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			return err
		}
		begin, end := entry.Offsets[0], entry.Offsets[1]
		if begin > end || end > uint64(len(data)) {
			return errors.New("a range leaves the file")
		}
		answer.Tensor(name, entry.DType, entry.Shape, data[begin:end])
	}
	answer.Metadata(metadata)
	return nil
}

func main() {
	stc.Serve(stc.Program{Name: "example", Version: "1.0", Lacks: []string{"dtype-f4"}}, read)
}
