package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const measured = 3 * time.Second

// bench asks a device plugin: Allocate of two devices by 1 and by 16 callers, then ListAndWatch as fast as it comes.
func bench(path string) error {
	connection, err := dial(path)
	if err != nil {
		return err
	}
	defer connection.Close()
	plugin := deviceplugin.NewDevicePluginClient(connection)
	for _, callers := range []int{1, 16} {
		took, err := allocate(plugin, callers)
		if err != nil {
			return err
		}
		slices.Sort(took)
		fmt.Printf("unary c=%d: %.0f/s, p50 %s, p99 %s\n", callers, float64(len(took))/measured.Seconds(),
			took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond))
	}
	return watch(plugin)
}

func allocate(plugin deviceplugin.DevicePluginClient, callers int) ([]time.Duration, error) {
	request := &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
		{DevicesIds: []string{"device-0", "device-1"}}}}
	all, failure := []time.Duration{}, error(nil)
	var lock sync.Mutex
	var group sync.WaitGroup
	end := time.Now().Add(measured)
	for range callers {
		group.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				_, err := plugin.Allocate(context.Background(), request)
				lock.Lock()
				all, failure = append(all, time.Since(began)), err
				lock.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return all, failure
}

func watch(plugin deviceplugin.DevicePluginClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), measured)
	defer cancel()
	stream, err := plugin.ListAndWatch(ctx, &deviceplugin.Empty{})
	if err != nil {
		return err
	}
	count, devices := 0, 0
	for {
		response, err := stream.Recv()
		if err != nil {
			break
		}
		count, devices = count+1, len(response.Devices)
	}
	fmt.Printf("stream of %d devices: %.0f messages/s\n", devices, float64(count)/measured.Seconds())
	return nil
}
