// Answers requests with parseHeader in github.com/gomlx/go-huggingface/models/safetensors, which all of its loaders
// call. The function is not exported, so add this line to the same package to export it:
//
//	func ParseHeader(path string) (*Header, int64, error) { return (*Model)(nil).parseHeader(path) }
package main

import (
	"example.org/shims/stc"
	"github.com/gomlx/go-huggingface/models/safetensors"
)

func read(path string, withData bool, answer *stc.Answer) error {
	held, _, err := safetensors.ParseHeader(path)
	if err != nil {
		return err
	}
	for name, t := range held.Tensors {
		shape := make([]uint64, len(t.Shape))
		for i, size := range t.Shape {
			shape[i] = uint64(size)
		}
		answer.Tensor(name, t.Dtype, shape, nil)
	}
	return nil
}

func main() {
	stc.Serve(stc.Program{Name: "gomlx-go-huggingface"}, read)
}
