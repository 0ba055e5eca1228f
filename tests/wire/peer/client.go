package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// call is one line of input. A stream is read to its end, or cancelled after Take messages.
type call struct {
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
	Timeout int             `json:"timeout_ms"`
	Take    int             `json:"take"`
}

type outcome struct {
	Code      string            `json:"code"`
	Message   string            `json:"message"`
	Responses []json.RawMessage `json:"responses"`
}

// dial connects the way a kubelet does.
func dial(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}))
}

func client(path string) error {
	connection, err := dial(path)
	if err != nil {
		return err
	}
	defer connection.Close()
	for input := json.NewDecoder(os.Stdin); ; {
		var one call
		if err := input.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		found, err := method(one.Method)
		if err != nil {
			return err
		}
		responses, err := perform(connection, found, one)
		told := status.Convert(err)
		write(outcome{told.Code().String(), told.Message(), responses})
	}
}

// perform makes one call and gives all answers as JSON.
func perform(connection *grpc.ClientConn, found protoreflect.MethodDescriptor, one call) ([]json.RawMessage, error) {
	request, err := fromJSON(found.Input(), one.Request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(one.Timeout)*time.Millisecond)
	defer cancel()
	responses := []json.RawMessage{}
	if !found.IsStreamingServer() {
		response, err := message(found.Output())
		if err != nil {
			return nil, err
		}
		if err := connection.Invoke(ctx, one.Method, request, response); err != nil {
			return responses, err
		}
		return append(responses, toJSON(response)), nil
	}
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, one.Method)
	if err != nil {
		return responses, err
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil {
		return responses, err
	}
	for one.Take == 0 || len(responses) < one.Take {
		response, err := message(found.Output())
		if err != nil {
			return nil, err
		}
		if err := stream.RecvMsg(response); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return responses, err
		}
		responses = append(responses, toJSON(response))
	}
	return responses, nil
}
