// Answers requests with github.com/nlpodyssey/safetensors: Deserialize for tensors, ReadMetadata for the metadata.
package main

import (
	"os"

	"example.org/shims/stc"
	"github.com/nlpodyssey/safetensors"
)

func read(path string, withData bool, answer *stc.Answer) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	held, err := safetensors.Deserialize(file)
	if err != nil {
		return err
	}
	_, header, err := safetensors.ReadMetadata(file)
	if err != nil {
		return err
	}
	for _, t := range held.Tensors() {
		view := t.TensorView
		answer.Tensor(t.Name, view.DType().String(), view.Shape(), view.Data())
	}
	answer.Metadata(header.Metadata())
	return nil
}

func main() {
	stc.Serve(stc.Program{
		Name: "nlpodyssey-safetensors",
		// The library's README and dtype.go name every dtype that it supports.
		Lacks: []string{
			"dtype-c64", "dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2", "dtype-f8-e4m3", "dtype-f8-e4m3fnuz",
			"dtype-f8-e5m2", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0",
		},
	}, read)
}
