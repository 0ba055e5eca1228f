// The other side of every socket, on grpc-go with Kubernetes' own generated types.
//
//	peer client SOCKET   reads one call a line, makes it, writes one outcome a line
//	peer server SOCKET   reads a script (one JSON object), serves it, writes one request a line, ends with stdin
//	peer bench  SOCKET   prints calls and stream messages a second
//
// Methods and messages are looked up by name in protobuf's registry, which the imports below fill.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "k8s.io/cri-api/pkg/apis/runtime/v1"
	_ "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	_ "k8s.io/kubelet/pkg/apis/dra-health/v1"
	_ "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	_ "k8s.io/kubelet/pkg/apis/dra/v1"
	_ "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	_ "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	_ "k8s.io/kubelet/pkg/apis/podresources/v1"
	_ "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: peer client|server|bench SOCKET"))
	}
	run, known := map[string]func(string) error{"client": client, "server": server, "bench": bench}[os.Args[1]]
	if !known {
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
	if err := run(os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "peer:", err)
	os.Exit(1)
}

// method finds "/package.Service/Method" among the imported services.
func method(path string) (protoreflect.MethodDescriptor, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%q is not a method path", path)
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(parts[1]))
	if err != nil {
		return nil, err
	}
	service, is := found.(protoreflect.ServiceDescriptor)
	if !is {
		return nil, fmt.Errorf("%q is no service", parts[1])
	}
	found2 := service.Methods().ByName(protoreflect.Name(parts[2]))
	if found2 == nil {
		return nil, fmt.Errorf("%q has no method %q", parts[1], parts[2])
	}
	return found2, nil
}

// message makes an empty message of the generated Go type.
func message(kind protoreflect.MessageDescriptor) (proto.Message, error) {
	found, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName())
	if err != nil {
		return nil, err
	}
	return found.New().Interface(), nil
}

// fromJSON makes a message from its JSON form; unknown names are an error.
func fromJSON(kind protoreflect.MessageDescriptor, data json.RawMessage) (proto.Message, error) {
	made, err := message(kind)
	if err != nil || len(data) == 0 {
		return made, err
	}
	return made, protojson.Unmarshal(data, made)
}

func toJSON(from proto.Message) json.RawMessage {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err != nil {
		fail(err)
	}
	return data
}

// write puts one JSON value on a line of its own.
func write(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(data))
}
