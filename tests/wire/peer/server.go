package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// script says how a method is answered: all responses, then the status.
type script struct {
	Responses []json.RawMessage `json:"responses"`
	Code      codes.Code        `json:"code"`
	Message   string            `json:"message"`
	// Plain answers with a Go error instead of a status, as most plugins do.
	Plain bool `json:"plain"`
	Sleep int  `json:"sleep_ms"`
	// CallBack names a method without arguments to call first, on the socket that the request's `endpoint` names
	// beside ours: what a kubelet does inside Register.
	CallBack string `json:"call_back"`
}

type peer struct {
	directory string
	scripts   map[string]script
	output    sync.Mutex
}

func server(path string) error {
	input := json.NewDecoder(os.Stdin)
	served := &peer{directory: filepath.Dir(path)}
	if err := input.Decode(&served.scripts); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	running := grpc.NewServer(grpc.UnknownServiceHandler(served.handle))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		running.Stop()
	}()
	fmt.Println(`"serving"`)
	return running.Serve(listener)
}

func (p *peer) handle(_ any, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	script, known := p.scripts[path]
	found, err := method(path)
	if err != nil || !known {
		return status.Errorf(codes.Unimplemented, "no script for %s", path)
	}
	request, err := message(found.Input())
	if err != nil {
		return err
	}
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	p.output.Lock()
	write(map[string]any{"method": path, "request": toJSON(request)})
	p.output.Unlock()
	if script.CallBack != "" {
		if err := p.callBack(script.CallBack, request); err != nil {
			return fmt.Errorf("failed to call back: %w", err)
		}
	}
	return answer(stream, found, script)
}

func answer(stream grpc.ServerStream, found protoreflect.MethodDescriptor, script script) error {
	time.Sleep(time.Duration(script.Sleep) * time.Millisecond)
	for _, data := range script.Responses {
		response, err := fromJSON(found.Output(), data)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(response); err != nil {
			return err
		}
	}
	if script.Plain {
		return fmt.Errorf("%s", script.Message)
	}
	return status.Error(script.Code, script.Message)
}

func (p *peer) callBack(path string, request proto.Message) error {
	field := request.ProtoReflect().Descriptor().Fields().ByName("endpoint")
	endpoint := request.ProtoReflect().Get(field).String()
	connection, err := dial(filepath.Join(p.directory, endpoint))
	if err != nil {
		return err
	}
	defer connection.Close()
	found, err := method(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	in, err := message(found.Input())
	if err != nil {
		return err
	}
	out, err := message(found.Output())
	if err != nil {
		return err
	}
	return connection.Invoke(ctx, path, in, out)
}
