"""`parki.files`: what VTK finds in the files, what is read back, and what is refused."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import parki

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
OPTIONS = [
    parki.EwaldOptions(3, [1, 2, 3], 1e-4),
    parki.EwaldOptions((False, True, True), [None, 1, 1], expert=parki.Expert(split="hasimoto")),
    parki.EwaldOptions(2, [1, 2, 3], wall=("no-slip", "no-slip"), mean_flow="no-flux"),
    parki.EwaldOptions(3, parki.lattice(1, 1, 1, xy=0.3), execution_space="Serial", cutoff=0.3),
    parki.EwaldOptions(0, deterministic=True),
]
GRID = parki.mesh.Grid((4, 5, 6), spacing=[0.1, 0.2, 0.3], origin=[1, 2, 3], periodic=[1, 0, 1])
PLANE = parki.mesh.Grid((4, 5), spacing=[0.1, 0.2])


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_options_are_read_back(options, tmp_path):
    values = json.loads(json.dumps(parki.files.options_to_dict(options)))
    assert parki.files.options_from_dict(values) == options
    parki.files.write(tmp_path / "a.vtkhdf", np.zeros((3, 2)), {}, options)
    assert parki.files.read(tmp_path / "a.vtkhdf").options == options


def test_spaces_are_names():
    options = parki.EwaldOptions(0, execution_space=parki.ExecutionSpace("Serial"))
    assert parki.files.options_to_dict(options)["execution_space"] == "Serial"


def fields(points):
    """Return a scalar, a vector and a tensor, by which coordinates are found again."""
    return {
        "scalar": points.T @ [1.0, 10.0, 100.0][: len(points)],
        "vector": points,
        "tensor": np.stack([points, 2 * points, 3 * points]),
    }


@pytest.mark.parametrize("grid", [GRID, PLANE], ids=["grid", "plane"])
def test_fields_on_a_grid(grid, tmp_path):
    """VTK has x fastest in memory, and the components of a point together."""
    points, path = grid.points, tmp_path / "flow.vtkhdf"
    written = fields(points)
    parki.files.write(path, grid, written | {"shaped": written["scalar"].reshape(grid.shape)})
    with h5py.File(path) as file:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"ImageData"
        vector, scalar = root["PointData/vector"][...], root["PointData/scalar"][...]
        extent = root.attrs["WholeExtent"].reshape(3, 2)
        origin, spacing = root.attrs["Origin"], root.attrs["Spacing"]
    place = (3, 2, 1)[-grid.dimensions :]  # z, y, x
    axes = grid.dimensions
    expected = origin[:axes] + spacing[:axes] * place[::-1]
    np.testing.assert_allclose(vector[place], expected)
    np.testing.assert_allclose(scalar[place], expected @ [1.0, 10.0, 100.0][:axes])
    assert [*extent[:, 1] + 1] == [*grid.shape, 1][:3]
    found = parki.files.read(path)
    assert found.places == grid and found.options is None
    for name, values in written.items():
        np.testing.assert_array_equal(found.fields[name].reshape(values.shape), values)
    np.testing.assert_array_equal(found.fields["shaped"], found.fields["scalar"])


def test_fields_at_points(tmp_path):
    points, path = np.random.default_rng(0).random((3, 7)), tmp_path / "spheres.vtkhdf"
    written = fields(points.astype("f4"))
    parki.files.write(path, points, written)
    with h5py.File(path) as file:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"UnstructuredGrid"
        np.testing.assert_array_equal(root["Points"], points.T)
        assert root["Offsets"].shape == (8,) and set(root["Types"]) == {1}
        np.testing.assert_array_equal(root["PointData/vector"], points.T.astype("f4"))
    found = parki.files.read(path)
    np.testing.assert_array_equal(found.places, points)
    for name, values in written.items():
        assert found.fields[name].dtype == values.dtype
        np.testing.assert_array_equal(found.fields[name], values)


@pytest.mark.parametrize("places", [GRID, PLANE, np.arange(21.0).reshape(3, 7)], ids=range(3))
def test_vtk_reads_them(places, tmp_path):
    vtk = pytest.importorskip("vtk", reason="vtk is not installed")
    from vtk.util.numpy_support import vtk_to_numpy

    points = getattr(places, "points", places)
    parki.files.write(tmp_path / "a.vtkhdf", places, fields(points))
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(tmp_path / "a.vtkhdf"))
    reader.Update()
    data = reader.GetOutput()
    at = np.array([data.GetPoint(n) for n in range(data.GetNumberOfPoints())])[:, : len(points)]
    assert len(at) == points.shape[1]
    vector, scalar = (vtk_to_numpy(data.GetPointData().GetArray(n)) for n in ("vector", "scalar"))
    np.testing.assert_allclose(vector, at)
    np.testing.assert_allclose(scalar, at @ [1.0, 10.0, 100.0][: len(points)])


def test_what_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.vtkhdf"
    with pytest.raises(parki.ParkiValueError, match=r"places has shape \(2, 3\); expected \(3, N"):
        parki.files.write(path, np.zeros((2, 3)), {})
    for shape in ((3, 8), (), (119,)):
        with pytest.raises(parki.ParkiValueError, match=r"field 'u' has shape .*; expected"):
            parki.files.write(path, GRID, {"u": np.zeros(shape)})
    with pytest.raises(parki.ParkiTypeError, match="options is a dict; expected EwaldOptions"):
        parki.files.write(path, GRID, {}, {"box": 1})
    assert not path.exists()
    with h5py.File(path, "w") as file:
        file["u"] = 1.0
    with pytest.raises(parki.ParkiValueError, match=r"a\.vtkhdf is no file that parki\.files\.wri"):
        parki.files.read(path)
    with pytest.raises(parki.ParkiTypeError, match="tol"):
        parki.files.options_from_dict({"tol": 1})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(parki.MissingPackageError, match=r"parki\.files needs h5py"):
        parki.files.read(path)
