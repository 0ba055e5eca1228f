package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// load calls Allocate for one id after the other, `clients` at once, over one connection as a kubelet does.
func load(socket, ids, callsText, clientsText string) error {
	calls, err := strconv.Atoi(callsText)
	if err != nil {
		return err
	}
	clients, err := strconv.Atoi(clientsText)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := pluginapi.NewDevicePluginClient(connection)
	names := strings.Split(ids, ",")
	if err := call(client, names[0]); err != nil { // connects
		return err
	}
	spent := make([]time.Duration, calls)
	failures := make([]error, clients)
	var next atomic.Int64
	var group sync.WaitGroup
	started := time.Now()
	for number := range clients {
		group.Go(func() {
			for at := int(next.Add(1)) - 1; at < calls; at = int(next.Add(1)) - 1 {
				began := time.Now()
				if failures[number] = call(client, names[at%len(names)]); failures[number] != nil {
					return
				}
				spent[at] = time.Since(began)
			}
		})
	}
	group.Wait()
	whole := time.Since(started)
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	fmt.Println(whole.Seconds())
	for _, one := range spent {
		fmt.Println(one.Seconds())
	}
	return nil
}

func call(client pluginapi.DevicePluginClient, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	container := &pluginapi.ContainerAllocateRequest{DevicesIds: []string{id}}
	answer, err := client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{container},
	})
	if err == nil && len(answer.ContainerResponses) != 1 {
		err = fmt.Errorf("%d answers for one container", len(answer.ContainerResponses))
	}
	return err
}
