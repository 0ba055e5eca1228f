// The protobuf oracle: client-go's own codecs, asked in JSON lines. One line in, one line out.
//
//	{"ask": "schema", "kinds": ["v1/Pod", ...]}         the fields of all messages below these kinds, from the Go types
//	{"ask": "fill", "kind": "v1/Pod", "seed": 1}        a random object as the body a client sends
//	{"ask": "decode", "body": "..."}                    a body as the JSON an API server makes of it
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

type question struct {
	Ask   string   `json:"ask"`
	Kinds []string `json:"kinds"`
	Kind  string   `json:"kind"`
	Seed  int64    `json:"seed"`
	Body  []byte   `json:"body"`
}

type answer struct {
	Error  string          `json:"error"`
	Schema *schema         `json:"schema,omitempty"`
	Body   []byte          `json:"body,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
}

var codec = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		fail(err)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
		if err := encoder.Encode(reply(line)); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func reply(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	result, err := answered(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return result
}

func answered(asked question) (answer, error) {
	switch asked.Ask {
	case "schema":
		return answer{Schema: schemaOf(asked.Kinds)}, nil
	case "fill":
		body, err := filled(asked.Kind, asked.Seed)
		if err != nil {
			return answer{}, err
		}
		return decoded(body)
	case "decode":
		return decoded(asked.Body)
	}
	return answer{}, fmt.Errorf("unknown question %q", asked.Ask)
}

func decoded(body []byte) (answer, error) {
	object, kind, err := codec.Decode(body, nil, nil)
	if err != nil {
		return answer{}, err
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	text, err := json.Marshal(object)
	// JSON inside is shown as it came, whatever its bytes are.
	return answer{Body: body, JSON: bytes.ToValidUTF8(text, []byte("\uFFFD"))}, err
}

func encoded(object runtime.Object) ([]byte, error) {
	return runtime.Encode(codec, object)
}
