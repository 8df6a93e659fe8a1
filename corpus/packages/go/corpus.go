// Package corpus is the conformance corpus of the safetensors format, as data.
package corpus

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed corpus.json
var manifest []byte

//go:embed files.bin
var stored []byte

// Largest is the maximum size in bytes of a file that Bytes and Files create in memory.
const Largest = 256 << 20

// Text is a string whose bytes may not be valid UTF-8.
type Text string

// Tensor is one tensor of a file. SHA256 is the hexadecimal digest of its bytes.
type Tensor struct {
	Name   Text     `json:"name"`
	DType  string   `json:"dtype"`
	Shape  []uint64 `json:"shape"`
	NBytes uint64   `json:"nbytes"`
	SHA256 string   `json:"sha256"`
}

// Content is the content of a file, or only the number of its tensors. Metadata is nil if the file has none.
type Content struct {
	Tensors     []Tensor `json:"tensors"`
	Metadata    Metadata `json:"metadata"`
	TensorCount *uint64  `json:"tensor_count"`
}

// Metadata is the metadata of a file.
type Metadata map[Text]Text

// Expectation is the required behaviour: Outcome "accept" with Content, or "reject" with Codes. For a case with a
// Choice, it is any of the Options.
type Expectation struct {
	Outcome    string                 `json:"outcome"`
	Codes      []string               `json:"codes"`
	Content    *Content               `json:"content"`
	Properties []string               `json:"properties"`
	Choice     string                 `json:"choice"`
	Options    map[string]Expectation `json:"options"`
}

// Case is one input with one purpose. Open is the file to open if the case has a folder, and Raw is its JSON.
type Case struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Title    string          `json:"title"`
	Rules    []string        `json:"rules"`
	Level    string          `json:"level"`
	Features []string        `json:"features"`
	Steps    []string        `json:"steps"`
	Smoke    bool            `json:"smoke"`
	Heavy    bool            `json:"heavy"`
	Action   json.RawMessage `json:"action"`
	Expect   Expectation     `json:"expect"`
	Open     string          `json:"-"`
	Raw      json.RawMessage `json:"-"`
	input    *input
}

type file struct {
	Path     string            `json:"path"`
	Size     uint64            `json:"size"`
	Parts    []json.RawMessage `json:"parts"`
	Template bool              `json:"template"`
}

type input struct {
	file
	Open  string `json:"open"`
	Files []file `json:"files"`
}

var (
	once sync.Once
	all  []Case
)

// Version is the version of the corpus.
const Version = "{{corpus_version}}"

// Cases returns the cases.
func Cases() []Case {
	once.Do(func() {
		var found struct{ Cases []json.RawMessage }
		must(json.Unmarshal(manifest, &found))
		all = make([]Case, len(found.Cases))
		for i, raw := range found.Cases {
			var more struct{ Input *input }
			must(json.Unmarshal(raw, &all[i]))
			must(json.Unmarshal(raw, &more))
			all[i].Raw, all[i].input = raw, more.Input
			if more.Input != nil {
				all[i].Open = more.Input.Open
			}
		}
	})
	return all
}

func must(err error) {
	if err != nil {
		panic(err) // the files of this package were changed
	}
}

// Bytes returns the file of a case, or nil if the case has a folder or no input.
func (c *Case) Bytes() ([]byte, error) {
	if c.input == nil || c.Open != "" {
		return nil, nil
	}
	return c.input.made()
}

// Files returns the files of a directory input that will be placed at root, as a map from paths to bytes.
func (c *Case) Files(root string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if c.input == nil {
		return out, nil
	}
	for _, f := range c.input.Files {
		data, err := f.made()
		if err != nil {
			return nil, err
		}
		if f.Template {
			data = bytes.ReplaceAll(data, []byte("@ROOT@"), []byte(root))
		}
		out[f.Path] = data
	}
	return out, nil
}

func (f *file) made() ([]byte, error) {
	if f.Size > Largest {
		return nil, fmt.Errorf("a file of %d bytes is too large to create in memory", f.Size)
	}
	out := make([]byte, 0, f.Size)
	for _, raw := range f.Parts {
		if raw[0] == '[' {
			place := []int{0, 0, 1}
			var given []int
			must(json.Unmarshal(raw, &given))
			copy(place, given)
			for ; place[2] > 0; place[2]-- {
				out = append(out, stored[place[0]:place[0]+place[1]]...)
			}
			continue
		}
		var part struct {
			Each, Separator     string
			First, Count, Zeros uint64
		}
		must(json.Unmarshal(raw, &part))
		out = append(out, make([]byte, part.Zeros)...)
		for i := part.First; i < part.First+part.Count; i++ {
			if i > part.First {
				out = append(out, part.Separator...)
			}
			numbers := strings.NewReplacer("{i}", strconv.FormatUint(i, 10), "{next}", strconv.FormatUint(i+1, 10))
			out = append(out, numbers.Replace(part.Each)...)
		}
	}
	return out, nil
}

// UnmarshalJSON parses a string, or {"hex": ...} for a string that JSON cannot represent.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	var spelled struct{ Hex string }
	if err := json.Unmarshal(raw, &spelled); err != nil {
		return err
	}
	data, err := hex.DecodeString(spelled.Hex)
	*t = Text(data)
	return err
}

// UnmarshalJSON parses an object, or {"items": [[key, value], ...]} if a key is not valid UTF-8.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(raw, &plain); err != nil || plain == nil {
		return err
	}
	*m = Metadata{}
	var items [][2]Text
	if err := json.Unmarshal(plain["items"], &items); err == nil {
		for _, item := range items {
			(*m)[item[0]] = item[1]
		}
		return nil
	}
	for key, raw := range plain {
		var text Text
		if err := text.UnmarshalJSON(raw); err != nil {
			return err
		}
		(*m)[Text(key)] = text
	}
	return nil
}
