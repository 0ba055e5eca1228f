"""Images of a CRI runtime: what it has, and what it can pull."""

from __future__ import annotations

from dray.errors import Error, InvalidError, NotFoundError, ProtocolError
from dray.kubelet.runtimes.images import HOST
from dray.wire.cri import ImagesClient
from dray.wire.gen import cri_v1_pb2 as pb

WAYS = (
    "bring it in without a registry (ctr -n k8s.io images import FILE), name one that the runtime has (crictl images),"
    " or let it reach the registry"
)
ALWAYS, NEVER = "Always", "Never"
PULL_SECONDS = 900.0
_ELSEWHERE = ("dir:", "oci:", "/")


async def ensure_image(images: ImagesClient, image: str, policy: str) -> None:
    """Have it. NotFoundError of kind `image`: it is not here and may not be pulled; of kind `pull`: it cannot be."""
    check_name(image)
    if policy != ALWAYS and await is_here(images, image):
        return
    if policy == NEVER:
        raise NotFoundError(
            f'container image "{image}" is not present with pull policy of Never: {WAYS}',
            kind="image",
            name=image,
        )
    try:
        await images.pull_image(pb.PullImageRequest(image=_spec(image)), timeout=PULL_SECONDS)
    except Error as error:
        raise NotFoundError(
            f"cannot pull image {image!r}: {error}; {WAYS}", kind="pull", name=image
        ) from error


async def is_here(images: ImagesClient, image: str) -> bool:
    """Whether the runtime has it under this name."""
    answer = await images.image_status(pb.ImageStatusRequest(image=_spec(image)))
    return answer.HasField("image")


async def find_image(images: ImagesClient, image: str) -> pb.Image:
    """The image that has this name now. A tag may be moved to another image at any time; the ID always means this one."""
    answer = await images.image_status(pb.ImageStatusRequest(image=_spec(image)))
    if not answer.HasField("image"):
        raise NotFoundError(f"image {image!r} is no longer present: {WAYS}", kind="image", name=image)
    if not answer.image.id:
        raise ProtocolError(f"the container runtime reports no ID for image {image!r}")
    return answer.image


def image_user(image: pb.Image) -> tuple[int | None, str]:
    """Who it runs as by itself: a number, or None and a name that only its own files know. Without either it is root."""
    if image.HasField("uid"):
        return image.uid.value, ""
    return (None, image.username) if image.username else (0, "")


def check_name(image: str) -> None:
    """InvalidError for the ways to give an image that need no registry: those are runc's. A CRI runtime has its own.

    A bare path would be worse than not found: containerd takes it for a checkpoint.
    """
    if not image or image == HOST or image.startswith(_ELSEWHERE):
        raise InvalidError(
            f"image {image!r} cannot be run by a CRI runtime (--runtime runc can): {WAYS}", field="image"
        )


def _spec(image: str) -> pb.ImageSpec:
    return pb.ImageSpec(image=image, user_specified_image=image)
