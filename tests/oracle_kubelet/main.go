// The oracle of the kubelet's side: its own topology manager and device manager, asked in JSON lines.
//
// One line in, one line out, in the same order:
//
//	oracle merge     hints of providers, through policies and scopes (merge.go)
//	oracle devices   devices and pods, through both managers (devices.go)
//	oracle load      many pods and a plugin over a socket, with the time of each admission (load.go)
//	oracle merging   the time of a merge (load.go)
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(logr.Discard())
	questions := map[string]func([]byte) any{
		"merge": answerMerge, "devices": answerDevices, "load": answerLoad, "merging": answerMergeTime,
	}
	if len(os.Args) != 2 || questions[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: oracle merge|devices|load|merging < lines.jsonl")
		os.Exit(2)
	}
	answerLines(questions[os.Args[1]])
}

// answerLines flushes when no further input waits, so that a caller may ask line by line as well as in bulk.
func answerLines(answer func([]byte) any) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			check(encoder.Encode(guarded(answer, line)))
		}
		if in.Buffered() == 0 || err != nil {
			check(out.Flush())
		}
		if err == io.EOF {
			return
		}
		check(err)
	}
}

// guarded turns a panic into an answer.
func guarded(answer func([]byte) any, line []byte) (result any) {
	defer func() {
		if cause := recover(); cause != nil {
			result = map[string]string{"error": fmt.Sprintf("panic: %v", cause)}
		}
	}()
	return answer(line)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
