"""What crosses a unix socket: the `.proto` files, the generated code and one thin typed adaptor per service.

In: a handler with async methods, or a socket path.
Out: a servable service (`serve`), a typed client (`connect`), errors of `dray.errors` on both sides.
Next: `deviceplugin/` and `dra/` serve, `kubelet/` calls; the two sides meet only here.
"""
