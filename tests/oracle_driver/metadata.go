package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	v1 "kubevirt.io/api/core/v1"
	kubevirtdra "kubevirt.io/kubevirt/pkg/dra"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/dra"
)

// The claim is as the pod and the VM name it. Below root is what the container sees.
type metadataQuestion struct {
	Root    string                                 `json:"root"`
	Driver  string                                 `json:"driver"`
	Claim   v1.VirtualMachineInstanceResourceClaim `json:"claim"`
	Request string                                 `json:"request"`
}

type metadataAnswer struct {
	Path       string                   `json:"path"`
	Document   *v1alpha1.DeviceMetadata `json:"document"`
	Error      string                   `json:"error"`
	GPU        given                    `json:"gpu"`
	HostDevice given                    `json:"hostDevice"`
}

type given struct {
	Type    string       `json:"type"`
	Address *api.Address `json:"address"`
	Error   string       `json:"error"`
}

func look(asked metadataQuestion) metadataAnswer {
	path := metadata.ResourceClaimTemplateFilePath(asked.Driver, asked.Claim.Name, asked.Request)
	if name := asked.Claim.ResourceClaimName; name != nil {
		path = metadata.ResourceClaimFilePath(asked.Driver, *name, asked.Request)
	}
	found, err := decode(filepath.Join(asked.Root, path))
	answer := metadataAnswer{Path: path, Document: found, Error: text(err)}
	reference := &v1.ClaimRequest{ClaimName: asked.Claim.Name, RequestName: asked.Request}
	directory := filepath.Join(asked.Root, kubevirtdra.DefaultMetadataBasePath)
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{asked.Claim}
	vmi.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "device", ClaimRequest: reference}}
	vmi.Spec.Domain.Devices.HostDevices = []v1.HostDevice{{Name: "device", ClaimRequest: reference}}
	answer.GPU = outcome(dra.CreateDRAGPUHostDevices(vmi, directory))
	answer.HostDevice = outcome(dra.CreateDRAHostDevices(vmi, directory))
	return answer
}

func decode(path string) (*v1alpha1.DeviceMetadata, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := &v1alpha1.DeviceMetadata{}
	return found, devicemetadata.DecodeMetadataFromStream(json.NewDecoder(file), found)
}

func outcome(devices []api.HostDevice, err error) given {
	if err != nil || len(devices) != 1 {
		return given{Error: text(err)}
	}
	return given{Type: string(devices[0].Type), Address: devices[0].Source.Address}
}
