package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"
	pluginapi "kubevirt.io/kubevirt/pkg/virt-handler/device-manager/deviceplugin/v1beta1"

	device_manager "dray/tests/e2e/tools/kubevirt/manager"
)

// The machine is the one this runs on: /sys, /dev and /proc/1/root. Picks are numbers of devices in a resource's list.
type machine struct {
	Permitted v1.PermittedHostDevices `json:"permitted"`
	Generic   []nodePlugin            `json:"generic"`
	Picks     map[string][][]int      `json:"picks"`
}

type nodePlugin struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	Count       int    `json:"count"`
	Permissions string `json:"permissions"`
}

type plugin struct {
	Socket    string       `json:"socket"`
	Devices   []listed     `json:"devices"`
	Allocated []allocation `json:"allocated"`
}

type listed struct {
	ID     string  `json:"id"`
	Health string  `json:"health"`
	Nodes  []int64 `json:"nodes"`
}

type allocation struct {
	Environment map[string]string `json:"environment"`
	Nodes       [][3]string       `json:"nodes"`
	Failed      bool              `json:"failed"`
}

// handle answers one machine on stdin with its plugins by resource.
func handle() {
	var asked machine
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	plugins := device_manager.Permitted(asked.Permitted)
	for _, one := range asked.Generic {
		plugins = append(plugins, device_manager.Generic(one.Name, one.Path, one.Count, one.Permissions))
	}
	answer := map[string]plugin{}
	for _, one := range plugins {
		answer[one.Resource] = tell(one, asked.Picks[one.Resource])
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}

func tell(one device_manager.Plugin, picks [][]int) plugin {
	told := plugin{filepath.Base(one.Socket), []listed{}, []allocation{}}
	for _, device := range one.Devices {
		nodes := []int64{}
		for _, node := range device.GetTopology().GetNodes() {
			nodes = append(nodes, node.ID)
		}
		told.Devices = append(told.Devices, listed{device.ID, device.Health, nodes})
	}
	for _, pick := range picks {
		ids := []string{}
		for _, number := range pick {
			if number < len(one.Devices) {
				ids = append(ids, one.Devices[number].ID)
			} else {
				ids = append(ids, "unknown")
			}
		}
		response, err := one.Allocate(ids)
		told.Allocated = append(told.Allocated, result(response, err))
	}
	return told
}

func result(response *pluginapi.AllocateResponse, err error) allocation {
	found := allocation{map[string]string{}, [][3]string{}, err != nil}
	if err != nil {
		return found
	}
	container := response.ContainerResponses[0]
	for name, text := range container.Envs {
		found.Environment[name] = text
	}
	for _, node := range container.Devices {
		found.Nodes = append(found.Nodes, [3]string{node.HostPath, node.ContainerPath, node.Permissions})
	}
	return found
}
