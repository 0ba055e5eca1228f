// Package device_manager is KubeVirt's own: its files are put beside this one before the build, without those that need a
// cluster. This one asks them, the way device_controller.go does.
package device_manager

import (
	"context"
	"sort"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	pluginapi "kubevirt.io/kubevirt/pkg/virt-handler/device-manager/deviceplugin/v1beta1"
)

type Plugin struct {
	Resource string
	Socket   string
	Devices  []*pluginapi.Device
	Allocate func(ids []string) (*pluginapi.AllocateResponse, error)
}

type allocator interface {
	Allocate(context.Context, *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error)
}

// Permitted are the plugins for the devices of this machine, by resource.
func Permitted(permitted v1.PermittedHostDevices) []Plugin {
	var found []Plugin
	pci := map[string]string{}
	for _, entry := range permitted.PciHostDevices {
		if !entry.ExternalResourceProvider {
			pci[strings.ToLower(entry.PCIVendorSelector)] = entry.ResourceName
		}
	}
	if len(permitted.PciHostDevices) != 0 {
		for resource, devices := range discoverPermittedHostPCIDevices(pci) {
			plugin := NewPCIDevicePlugin(devices, resource)
			found = append(found, of(plugin, plugin.DevicePluginBase, plugin.devs))
		}
	}
	mdev := map[string]string{}
	for _, entry := range permitted.MediatedDevices {
		if !entry.ExternalResourceProvider {
			mdev[strings.ReplaceAll(entry.MDEVNameSelector, " ", "_")] = entry.ResourceName
		}
	}
	for name, devices := range discoverPermittedHostMediatedDevices(mdev) {
		plugin := NewMediatedDevicePlugin(devices, mdev[name])
		found = append(found, of(plugin, plugin.DevicePluginBase, plugin.devs))
	}
	for resource, devices := range discoverAllowedUSBDevices(permitted.USB) {
		plugin := NewUSBDevicePlugin(resource, devices)
		found = append(found, of(plugin, plugin.DevicePluginBase, plugin.devicesToKubeVirtDevicePlugin()))
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Resource < found[j].Resource })
	return found
}

// Generic is the plugin for one device node.
func Generic(name, path string, count int, permissions string) Plugin {
	plugin := NewGenericDevicePlugin(name, path, count, permissions, false)
	return Plugin{plugin.resourceName, plugin.socketPath, plugin.devs, asking(plugin)}
}

func of(plugin allocator, base *DevicePluginBase, devices []*pluginapi.Device) Plugin {
	return Plugin{base.resourceName, base.socketPath, devices, asking(plugin)}
}

func asking(plugin allocator) func([]string) (*pluginapi.AllocateResponse, error) {
	return func(ids []string) (*pluginapi.AllocateResponse, error) {
		request := &pluginapi.ContainerAllocateRequest{DevicesIDs: ids}
		return plugin.Allocate(context.Background(), &pluginapi.AllocateRequest{
			ContainerRequests: []*pluginapi.ContainerAllocateRequest{request},
		})
	}
}
