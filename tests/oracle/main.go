// The oracle: Kubernetes' own structured allocator and device selector evaluator, asked in JSON lines.
//
// One line in, one line out, in the same order:
//
//	oracle allocate [-tier experimental]   cases in the format of `dray allocate --cases`
//	oracle select                          cases in the format of `dray cel --cases`
//	oracle bench [-tier incubating]        workloads, see bench.go
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/klog/v2"
)

const longestLine = 1 << 30

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if len(os.Args) < 2 {
		usage()
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	tier := flags.String("tier", "experimental", "stable, incubating, experimental, or auto: what Kubernetes would pick")
	limit := flags.Duration("timeout", 5*time.Second, "the longest time for one Allocate call")
	if err := flags.Parse(os.Args[2:]); err != nil {
		usage()
	}
	switch os.Args[1] {
	case "allocate":
		answerLines(func(line []byte) any { return answerAllocation(line, *tier, *limit) })
	case "select":
		answerLines(func(line []byte) any { return answerSelector(line) })
	case "evaluate":
		answerLines(func(line []byte) any { return answerExpression(line) })
	case "bench":
		answerLines(func(line []byte) any { return answerBench(line, *tier, *limit) })
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: oracle allocate|select|evaluate|bench [-tier TIER] [-timeout DURATION] < lines.jsonl")
	os.Exit(2)
}

// answerLines flushes when no further input waits, so that a caller may ask line by line as well as in bulk.
func answerLines(answer func([]byte) any) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > longestLine {
			fail(fmt.Errorf("a line of %d bytes", len(line)))
		}
		if len(line) > 1 {
			if err := encoder.Encode(answer(line)); err != nil {
				fail(err)
			}
		}
		if in.Buffered() == 0 || err != nil {
			if err := out.Flush(); err != nil {
				fail(err)
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}
