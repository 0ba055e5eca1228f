"""What is typed at kubectl, in this order; `kubectl_objects.FILES` lie in its directory. Every line is one invocation.

A line may begin with a mark: `names:` compares only names and types (explain), `within:` asks that every line of ours is among
the real ones (they serve more kinds), `watch N:` is ended after N lines while the lines after `&&` are run.
"""

from __future__ import annotations

from typing import Final

LOOK_AROUND: Final = """
within: api-versions
within: api-resources
within: api-resources -o name
api-resources --api-group=resource.k8s.io
api-resources --api-group=resource.k8s.io -o wide
api-resources --namespaced=true --api-group=coordination.k8s.io -o name
cluster-info
get namespace default -o name
get --raw /healthz
auth can-i create pods
auth can-i get nodes --all-namespaces
auth can-i create pods --as=nobody-at-all
auth whoami -o jsonpath={.status.userInfo.username},{.status.userInfo.groups}
auth can-i get /healthz --as=nobody-at-all
get pods --as=nobody-at-all
"""

MAKE: Final = """
create namespace kubectl-agrees
create namespace kubectl-agrees
create -f class.yaml
create -f slice.yaml
create -f node.yaml
create -f claim.yaml
create -f template.yaml -o yaml
create -f taint-rule.yaml -o yaml
create -f pod.yaml
apply -f pod-two.yaml
create -f config.yaml
create -f event.yaml
apply -f deployment.yaml
create configmap literal --from-literal=a=1 --from-literal=b=2
create secret generic hidden --from-literal=password=x
create serviceaccount robot
create role reader --verb=get,list --resource=pods
create rolebinding readers --role=reader --serviceaccount=kubectl-agrees:robot
create quota small --hard=pods=10
create priorityclass kubectl-agrees --value=1000
create job once --image=registry.example/app:1
create deployment made --image=registry.example/app:1 --replicas=2
create poddisruptionbudget keep --selector=app=web --min-available=1
create configmap tried --from-literal=a=1 --dry-run=server -o yaml
create configmap tried --from-literal=a=1 --dry-run=client -o yaml
run ran --image=registry.example/app:1 --labels=app=ran -o yaml
"""

LOOK: Final = """
get pods
get pods -o wide
get pods --show-labels
get pods -L app,tier
get pods -o name
get pods --no-headers
get pod one -o yaml
get pod one -o json
get pods -o jsonpath={.items[*].metadata.name}
get pods -o custom-columns=N:.metadata.name,P:.status.phase,C:.spec.resourceClaims[*].resourceClaimName
get pods -o go-template={{range.items}}{{.metadata.name}},{{end}}
get pods --sort-by=.metadata.name
get pods -l app=web
get pods -l 'tier in (two)' -o name
get pods -l app!=web,tier -o name
get pods --field-selector=metadata.name=one
get pods --field-selector=status.phase=Pending,spec.nodeName= -o name
get pods --field-selector=metadata.name!=one -o name
get pods -A -l app=web
get pods --chunk-size=1 -o name
get pod/one configmap/settings
get pods,configmaps -l app=web
get resourceclaims
get resourceclaims -o wide
get resourceclaim one -o yaml
get resourceclaimtemplates
get resourceclaimtemplate each -o json
get resourceslices -l app=web
get resourceslices -l app=web -o wide
get resourceslice kubectl-agrees -o yaml
get resourceslices --field-selector=spec.nodeName=kubectl-agrees -o name
get deviceclasses -l app=web
get deviceclass kubectl-agrees -o yaml
get devicetaintrule kubectl-agrees
get devicetaintrule kubectl-agrees -o yaml
get node kubectl-agrees
get node kubectl-agrees -o wide
get node kubectl-agrees -o yaml
get namespace kubectl-agrees
get namespace kubectl-agrees -o yaml
get cm settings literal
get cm literal -o yaml
get secret hidden
get secret hidden -o yaml
get sa robot
get deploy
get deployment web -o yaml
get job once -o yaml
get quota small -o yaml
get priorityclass kubectl-agrees
get pdb keep -o yaml
get role,rolebinding
get events
get events -o wide
get event settings.1 -o yaml
events
events --for=configmap/settings
get all -l app=web -o name
get -f all.yaml -o name
get --raw /api/v1/namespaces/kubectl-agrees/configmaps/literal
describe pod one
describe pods -l app=ran
describe resourceclaim one
describe resourceclaimtemplate each
describe resourceslice kubectl-agrees
describe deviceclass kubectl-agrees
describe devicetaintrule kubectl-agrees
describe node kubectl-agrees
describe namespace kubectl-agrees
describe configmap settings
describe secret hidden
describe deployment web
describe quota small
"""

EXPLAIN: Final = """
names: explain pods
names: explain pod.spec.resourceClaims
names: explain pod.spec.containers.resources
names: explain pod --recursive
names: explain node.status --recursive
names: explain namespace.status
names: explain configmap
names: explain event
names: explain lease.spec
names: explain resourceclaim
names: explain resourceclaim.spec --recursive
names: explain resourceclaim.status --recursive
names: explain resourceclaimtemplates --recursive
names: explain resourceslices --recursive
names: explain resourceslice.spec.devices.attributes
names: explain deviceclass.spec.selectors.cel
names: explain devicetaintrule --recursive
names: explain deployment.spec --recursive
names: explain services.spec
names: explain pvc --recursive
names: explain clusterroles
names: explain crd.spec --recursive
names: explain pods.spec.nothing
names: explain nothing
"""

CHANGE: Final = """
apply -f config-changed.yaml
get cm settings -o yaml
apply -f config-changed.yaml
diff -f config.yaml
diff -f config-changed.yaml
apply -f pod-image.yaml
get pod one -o jsonpath={.spec.containers[0].image}
apply -f claim-labelled.yaml
apply -f deployment-changed.yaml
get deployment web -o jsonpath={.spec.replicas},{.spec.template.spec.containers[0].image},{.metadata.generation}
apply -f config.yaml -f deployment.yaml
apply view-last-applied configmap settings
apply set-last-applied -f config.yaml
apply -f config.yaml --dry-run=server
apply -f config-changed.yaml --dry-run=client
apply --server-side -f config-ssa.yaml --field-manager=first
apply --server-side -f config-ssa.yaml --field-manager=first
apply --server-side -f config-ssa-blue.yaml --field-manager=second
apply --server-side -f config-ssa-blue.yaml --field-manager=second --force-conflicts
get cm applied -o yaml --show-managed-fields
apply --server-side -f config-ssa.yaml --field-manager=third --dry-run=server --force-conflicts -o yaml
apply --prune -l app=web --prune-allowlist=core/v1/ConfigMap -f config.yaml
label pod one colour=red
label pod one colour=blue
label pod one colour=blue --overwrite
label pods -l app=web seen=yes
label pod one colour-
annotate pod one note=hello
annotate pod one note-
annotate resourceclaim one example.com/note=x
patch cm settings -p '{"data":{"size":"large"}}'
patch cm settings -p '{"data":{"size":"large"}}'
patch cm settings --patch-file=patch.yaml
patch cm settings --type=merge -p '{"data":{"size":null,"extra":"1"}}' -o yaml
patch cm settings --type=json -p '[{"op":"add","path":"/data/more","value":"x"}]'
patch cm settings --type=json -p '[{"op":"test","path":"/data/more","value":"y"}]'
patch cm settings --type=json -p '[{"op":"remove","path":"/data/none"}]'
patch pod one -p '{"spec":{"containers":[{"name":"main","image":"registry.example/app:3"}]}}'
get pod one -o jsonpath={.spec.containers[*].image}
patch pod one --subresource=status -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
get pod one
get pod one --subresource=status -o jsonpath={.status.phase}
wait --for=condition=Ready pod/one --timeout=5s
wait --for=jsonpath={.status.phase}=Running pod/one --timeout=5s
wait --for=condition=Ready pod/two --timeout=1s
wait --for=create configmap/settings --timeout=5s
patch resourceclaim one --subresource=status --type=merge -p '{"status":{"reservedFor":[{"resource":"pods","name":"one","uid":"1"}]}}'
patch node kubectl-agrees --subresource=status -p '{"status":{"capacity":{"cpu":"4","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}'
describe node kubectl-agrees
edit cm settings
edit pod two -o yaml
replace -f config.yaml
replace -f config.yaml --force
replace -f config-stale.yaml
taint node kubectl-agrees example.com/broken=yes:NoSchedule
taint node kubectl-agrees example.com/broken=no:NoSchedule
taint node kubectl-agrees example.com/broken-
cordon kubectl-agrees
cordon kubectl-agrees
get node kubectl-agrees
uncordon kubectl-agrees
set image deployment/web main=registry.example/app:4
set env deployment/web A=1
set resources deployment/web --limits=cpu=1
set serviceaccount deployment/web robot
set data cm/settings a=b
scale deployment web --replicas=5
scale deployment web --replicas=6 --current-replicas=1
rollout pause deployment/web
rollout resume deployment/web
rollout restart deployment/web
get deployment web -o jsonpath={.metadata.generation},{.spec.replicas}
watch 5: get cm -w -o name && label cm settings round=1 && label cm settings round=2 --overwrite
watch 4: get pods two -w && annotate pod two a=b && delete pod two
watch 4: get cm literal -w --output-watch-events && patch cm literal -p '{"data":{"a":"9"}}' && delete cm literal
"""

WRONG: Final = """
get pod missing
get pods missing one
get pod missing --ignore-not-found
get widgets
get widgets.example.com
get pods --field-selector=spec.nothing=x
get pods -l 'a in (x'
get resourceclaim/missing
describe pod missing
create -f pod.yaml
create -f pod-invalid.yaml
create -f pod-sourceless.yaml
create -f claim-invalid.yaml
create -f claim-bad-cel.yaml
create -f slice-invalid.yaml
create -f broken.yaml
create -f kindless.yaml
create -f widget.yaml
create -f missing.yaml
create -f config-unknown.yaml
create -f config-double.yaml
create -f config-unknown.yaml --validate=warn
create -f pod-unknown.yaml --validate=strict
create -f pod-unknown.yaml --validate=ignore
apply -f pod-unknown.yaml --validate=warn
apply -f pod-changed.yaml
apply -f claim-changed.yaml
apply -f deployment-selector.yaml
apply --server-side -f pod-unknown.yaml
create -f config.yaml -n missing
create namespace Bad_Name
create configmap 'Bad Name'
label pod one 'bad label=x'
label pod one a='not a value!'
patch cm settings -p '{"data":{"size":1}}'
patch cm settings -p '{'
patch cm missing -p '{}'
patch cm settings --type=json -p '{}'
patch resourceclaim one --type=merge -p '{"spec":{"devices":{"requests":[]}}}'
patch resourceclaim one -p '{"metadata":{"name":"two"}}'
patch pod one -p '{"spec":{"nodeName":"elsewhere"}}'
patch pod one --subresource=nothing -p '{}'
scale deployment missing --replicas=1
delete pod missing
delete pod missing --ignore-not-found
wait --for=delete pod/missing --timeout=2s
wait --for=condition=Ready pod/missing --timeout=1s
auth can-i create nothing
"""

DELETE: Final = """
delete deployment web --cascade=orphan --wait=false
delete deployment made --cascade=foreground --wait=false
delete job once --cascade=background
delete pod one --dry-run=server
delete pod one --grace-period=0 --force
delete pod strict --now
delete pods -l app=ran
delete cm settings applied --wait=true
delete -f event.yaml
delete sa,role,rolebinding,secret --all
delete quota/small pdb/keep
delete resourceclaim one
delete resourceclaimtemplates --all
delete -f class.yaml -f slice.yaml -f node.yaml -f taint-rule.yaml --ignore-not-found
delete priorityclass kubectl-agrees -o name
get pods,cm,resourceclaims -o name
get pods
"""

PARTS: Final = {
    "look around": LOOK_AROUND,
    "make": MAKE,
    "look": LOOK,
    "explain": EXPLAIN,
    "change": CHANGE,
    "wrong": WRONG,
    "delete": DELETE,
}
