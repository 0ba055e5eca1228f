// Package libvirt holds the few names that KubeVirt's hot-plug file needs to compile. The real module binds the C library,
// which neither a machine without libvirt nor this program has.
package libvirt

type DomainDeviceModifyFlags uint

const (
	DOMAIN_DEVICE_MODIFY_LIVE   DomainDeviceModifyFlags = 1
	DOMAIN_DEVICE_MODIFY_CONFIG DomainDeviceModifyFlags = 2
)
