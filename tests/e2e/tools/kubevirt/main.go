// KubeVirt's own code as a program to ask, for the tests test_launcher_agrees.py and test_handler_agrees.py of tests/e2e.
//
// `launcher` answers, one JSON line per JSON line of input, what virt-launcher makes of a container's environment: the
// addresses it pops, and the devices of a VM's gpus and hostDevices. `handler` answers one question: see handler.go.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	kubevirtlog "kubevirt.io/client-go/log"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/generic"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/gpu"
)

type entry struct {
	Name       string `json:"name"`
	DeviceName string `json:"deviceName"`
}

type question struct {
	Environment map[string]string `json:"environment"`
	Prefix      string            `json:"prefix"`
	Pops        []string          `json:"pops"`
	Entries     []entry           `json:"entries"`
}

type popped struct {
	Address string `json:"address"`
	Error   string `json:"error"`
}

type assigned struct {
	Alias   string `json:"alias"`
	Type    string `json:"type"`
	Address string `json:"address"`
}

type outcome struct {
	Devices []assigned `json:"devices"`
	Error   string     `json:"error"`
}

type answer struct {
	Pops        []popped `json:"pops"`
	GPUs        outcome  `json:"gpus"`
	HostDevices outcome  `json:"hostDevices"`
}

func main() {
	kubevirtlog.Log.SetIOWriter(io.Discard)
	switch os.Args[1] {
	case "launcher":
		launch()
	case "handler":
		handle()
	default:
		log.Fatal("launcher or handler?")
	}
}

func launch() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		text, err := json.Marshal(reply(asked))
		if err != nil {
			log.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func reply(asked question) answer {
	os.Clearenv()
	for name, text := range asked.Environment {
		if err := os.Setenv(name, text); err != nil {
			log.Fatal(err)
		}
	}
	gpus, hostDevices := []v1.GPU{}, []v1.HostDevice{}
	for _, one := range asked.Entries {
		gpus = append(gpus, v1.GPU{Name: one.Name, DeviceName: one.DeviceName})
		hostDevices = append(hostDevices, v1.HostDevice{Name: one.Name, DeviceName: one.DeviceName})
	}
	pool := hostdevice.NewAddressPool(asked.Prefix, asked.Pops)
	pops := []popped{}
	for _, resource := range asked.Pops {
		address, err := pool.Pop(resource)
		pops = append(pops, popped{address, textOf(err)})
	}
	return answer{pops, told(gpu.CreateHostDevices(gpus)), told(generic.CreateHostDevices(hostDevices))}
}

func told(found []api.HostDevice, err error) outcome {
	devices := []assigned{}
	for _, one := range found {
		devices = append(devices, assigned{one.Alias.GetName(), one.Type, addressOf(one)})
	}
	return outcome{devices, textOf(err)}
}

// What stands in the domain's address, put together again.
func addressOf(one api.HostDevice) string {
	at := one.Source.Address
	switch one.Type {
	case api.HostDevicePCI:
		plain := func(field string) string { return strings.TrimPrefix(field, "0x") }
		return plain(at.Domain) + ":" + plain(at.Bus) + ":" + plain(at.Slot) + "." + plain(at.Function)
	case api.HostDeviceMDev:
		return at.UUID
	default:
		return at.Bus + ":" + at.Device
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
