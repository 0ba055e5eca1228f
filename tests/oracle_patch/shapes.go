package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	resourcebeta "k8s.io/api/resource/v1beta2"
	scheduling "k8s.io/api/scheduling/v1"
	schedulingalpha "k8s.io/api/scheduling/v1alpha2"
	storage "k8s.io/api/storage/v1"
)

var kinds = map[string]any{
	"v1/ConfigMap":             core.ConfigMap{},
	"v1/Endpoints":             core.Endpoints{},
	"v1/Event":                 core.Event{},
	"v1/LimitRange":            core.LimitRange{},
	"v1/Namespace":             core.Namespace{},
	"v1/Node":                  core.Node{},
	"v1/PersistentVolume":      core.PersistentVolume{},
	"v1/PersistentVolumeClaim": core.PersistentVolumeClaim{},
	"v1/Pod":                   core.Pod{},
	"v1/PodTemplate":           core.PodTemplate{},
	"v1/ReplicationController": core.ReplicationController{},
	"v1/ResourceQuota":         core.ResourceQuota{},
	"v1/Secret":                core.Secret{},
	"v1/Service":               core.Service{},
	"v1/ServiceAccount":        core.ServiceAccount{},

	"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy":        admission.ValidatingAdmissionPolicy{},
	"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding": admission.ValidatingAdmissionPolicyBinding{},

	"apps/v1/ControllerRevision": apps.ControllerRevision{},
	"apps/v1/DaemonSet":          apps.DaemonSet{},
	"apps/v1/Deployment":         apps.Deployment{},
	"apps/v1/ReplicaSet":         apps.ReplicaSet{},
	"apps/v1/StatefulSet":        apps.StatefulSet{},
	"batch/v1/CronJob":           batch.CronJob{},
	"batch/v1/Job":               batch.Job{},

	"autoscaling/v2/HorizontalPodAutoscaler":           autoscaling.HorizontalPodAutoscaler{},
	"certificates.k8s.io/v1/CertificateSigningRequest": certificates.CertificateSigningRequest{},
	"coordination.k8s.io/v1/Lease":                     coordination.Lease{},
	"discovery.k8s.io/v1/EndpointSlice":                discovery.EndpointSlice{},
	"events.k8s.io/v1/Event":                           events.Event{},
	"networking.k8s.io/v1/IPAddress":                   networking.IPAddress{},
	"networking.k8s.io/v1/Ingress":                     networking.Ingress{},
	"networking.k8s.io/v1/IngressClass":                networking.IngressClass{},
	"networking.k8s.io/v1/NetworkPolicy":               networking.NetworkPolicy{},
	"networking.k8s.io/v1/ServiceCIDR":                 networking.ServiceCIDR{},
	"node.k8s.io/v1/RuntimeClass":                      node.RuntimeClass{},
	"policy/v1/PodDisruptionBudget":                    policy.PodDisruptionBudget{},
	"rbac.authorization.k8s.io/v1/ClusterRole":         rbac.ClusterRole{},
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding":  rbac.ClusterRoleBinding{},
	"rbac.authorization.k8s.io/v1/Role":                rbac.Role{},
	"rbac.authorization.k8s.io/v1/RoleBinding":         rbac.RoleBinding{},
	"scheduling.k8s.io/v1/PriorityClass":               scheduling.PriorityClass{},
	"scheduling.k8s.io/v1alpha2/PodGroup":              schedulingalpha.PodGroup{},
	"scheduling.k8s.io/v1alpha2/Workload":              schedulingalpha.Workload{},
	"storage.k8s.io/v1/CSIDriver":                      storage.CSIDriver{},
	"storage.k8s.io/v1/CSINode":                        storage.CSINode{},
	"storage.k8s.io/v1/CSIStorageCapacity":             storage.CSIStorageCapacity{},
	"storage.k8s.io/v1/StorageClass":                   storage.StorageClass{},
	"storage.k8s.io/v1/VolumeAttributesClass":          storage.VolumeAttributesClass{},
	"storage.k8s.io/v1/VolumeAttachment":               storage.VolumeAttachment{},
	"resource.k8s.io/v1/DeviceClass":                   resource.DeviceClass{},
	"resource.k8s.io/v1/ResourceClaim":                 resource.ResourceClaim{},
	"resource.k8s.io/v1/ResourceClaimTemplate":         resource.ResourceClaimTemplate{},
	"resource.k8s.io/v1/ResourceSlice":                 resource.ResourceSlice{},
	"resource.k8s.io/v1beta2/DeviceClass":              resourcebeta.DeviceClass{},
	"resource.k8s.io/v1beta2/DeviceTaintRule":          resourcebeta.DeviceTaintRule{},
	"resource.k8s.io/v1beta2/ResourceClaim":            resourcebeta.ResourceClaim{},
	"resource.k8s.io/v1beta2/ResourceClaimTemplate":    resourcebeta.ResourceClaimTemplate{},
	"resource.k8s.io/v1beta2/ResourceSlice":            resourcebeta.ResourceSlice{},
}

var marshaler = reflect.TypeFor[json.Marshaler]()

type table struct {
	Kinds  map[string]string            `json:"kinds"`
	Shapes map[string]map[string]string `json:"shapes"`
	Plain  map[string]string            `json:"plain"`
}

// shapes tells, for each struct, the fields that hold a struct or a list as "TYPE", "[]TYPE" or "[]TYPE STRATEGIES KEY",
// and the names of all others. TYPE is "" where no struct is inside.
func shapes() table {
	all := table{map[string]string{}, map[string]map[string]string{}, map[string]string{}}
	for kind, example := range kinds {
		all.Kinds[kind] = all.add(reflect.TypeOf(example))
	}
	return all
}

func (all table) add(kind reflect.Type) string {
	path := strings.Split(kind.PkgPath(), "/")
	name := strings.Join(path[len(path)-2:], ".") + "." + kind.Name()
	if _, done := all.Shapes[name]; done {
		return name
	}
	all.Shapes[name] = map[string]string{}
	plain := all.fields(kind, all.Shapes[name], nil)
	slices.Sort(plain)
	all.Plain[name] = strings.Join(plain, " ")
	return name
}

func (all table) fields(kind reflect.Type, into map[string]string, plain []string) []string {
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			plain = all.fields(field.Type, into, plain)
			continue
		}
		if name == "-" || !field.IsExported() {
			continue
		}
		said := all.reference(field.Type)
		if strategies := field.Tag.Get("patchStrategy"); strategies != "" {
			said = strings.TrimRight(said+" "+strategies+" "+field.Tag.Get("patchMergeKey"), " ")
		}
		if said == "" {
			plain = append(plain, name)
		} else {
			into[name] = said
		}
	}
	return plain
}

func (all table) reference(kind reflect.Type) string {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() != reflect.Uint8:
		return "[]" + all.reference(kind.Elem())
	case kind.Kind() == reflect.Struct && !reflect.PointerTo(kind).Implements(marshaler):
		return all.add(kind)
	}
	return ""
}
