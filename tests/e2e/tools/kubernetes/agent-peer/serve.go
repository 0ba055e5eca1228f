package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

// served is one resource with its plugin; `gone` are the nodes that are not there.
type served struct {
	resource Resource
	stub     *plugin.Stub
	gone     map[string]bool
}

func serve(path string) error {
	spec, err := readSpec(path)
	if err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	byPath := map[string][]*served{}
	for number, resource := range spec.Resources {
		one, err := start(spec.Directory, number, resource)
		if err != nil {
			return err
		}
		for _, device := range resource.Devices {
			if known := byPath[device.Path]; len(known) == 0 || known[len(known)-1] != one {
				byPath[device.Path] = append(known, one)
			}
			if err := watcher.Add(filepath.Dir(device.Path)); err != nil {
				return err
			}
		}
	}
	return follow(watcher, byPath)
}

func start(directory string, number int, resource Resource) (*served, error) {
	ctx := context.Background()
	nodes := map[string]string{}
	for _, device := range resource.Devices {
		nodes[device.ID] = device.Path
	}
	one := &served{resource: resource, gone: map[string]bool{}}
	socket := filepath.Join(directory, fmt.Sprintf("peer-%d.sock", number))
	one.stub = plugin.NewDevicePluginStub(klog.FromContext(ctx), one.list(), socket, resource.Name, false, false)
	one.stub.SetAllocFunc(func(r *pluginapi.AllocateRequest, devs map[string]*pluginapi.Device) (*pluginapi.AllocateResponse, error) {
		return allocate(r, nodes)
	})
	if err := one.stub.Start(ctx); err != nil {
		return nil, err
	}
	kubelet := filepath.Join(directory, "kubelet.sock")
	return one, one.stub.Register(ctx, kubelet, resource.Name, "")
}

// allocate gives each container the nodes of its devices, if they are there.
func allocate(r *pluginapi.AllocateRequest, nodes map[string]string) (*pluginapi.AllocateResponse, error) {
	var responses pluginapi.AllocateResponse
	for _, request := range r.ContainerRequests {
		response := &pluginapi.ContainerAllocateResponse{}
		for _, id := range request.DevicesIds {
			path, known := nodes[id]
			if !known {
				return nil, fmt.Errorf("there is no device %s", id)
			}
			if _, err := os.Lstat(path); err != nil {
				return nil, err
			}
			spec := &pluginapi.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"}
			response.Devices = append(response.Devices, spec)
		}
		responses.ContainerResponses = append(responses.ContainerResponses, response)
	}
	return &responses, nil
}

func (s *served) list() []*pluginapi.Device {
	devices := make([]*pluginapi.Device, 0, len(s.resource.Devices))
	for _, device := range s.resource.Devices {
		health := pluginapi.Healthy
		if s.gone[device.Path] {
			health = pluginapi.Unhealthy
		}
		devices = append(devices, &pluginapi.Device{ID: device.ID, Health: health})
	}
	return devices
}

// follow tells each resource's list anew when one of its nodes comes or goes.
func follow(watcher *fsnotify.Watcher, byPath map[string][]*served) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	for {
		select {
		case <-signals:
			return nil
		case err := <-watcher.Errors:
			return err
		case event := <-watcher.Events:
			if !event.Has(fsnotify.Create) && !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
				continue
			}
			for _, one := range byPath[event.Name] {
				_, err := os.Lstat(event.Name)
				one.gone[event.Name] = err != nil
				one.stub.Update(one.list())
			}
		}
	}
}
