"""Values for crates/vision/tests/pictures.rs, from Pillow 13.

    python tools/oracles/pictures.py crates/vision/tests/data

Small files of each format, and in `pictures.json` the pixels that Pillow reads from them (as Base64), turned as EXIF data asks and laid
on white where they are transparent; and pictures of a formula resampled by each filter.
"""

import base64
import io
import json
import pathlib
import sys

import numpy as np
from PIL import Image, ImageOps


def formula(height, width, channels=3):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    values = 128 + 90 * (((x * (3 + c) + y * 2) % 61) - 30) // 30 + ((x * 5 + y * 11 * (c + 1) + x * y) % 37) - 18
    return np.clip(values, 0, 255).astype(np.uint8)


def smooth(height, width):
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return np.clip(40 + x * 4 + y * 3 + c * 20, 0, 255).astype(np.uint8)


def text(array):
    return base64.b64encode(np.ascontiguousarray(array, np.uint8).tobytes()).decode()


def files():
    rgb, soft = Image.fromarray(formula(9, 13)), Image.fromarray(smooth(24, 32))
    rgba = Image.fromarray(np.concatenate([formula(9, 13), formula(9, 13, 4)[..., 3:]], -1))
    grey = Image.fromarray(formula(9, 13)[..., 0])
    palette = rgb.quantize(16)
    turned = Image.Exif()
    turned[0x112] = 6
    yield "rgb.png", rgb, {}
    yield "rgba.png", rgba, {}
    yield "grey.png", grey, {}
    yield "palette.png", palette, {"transparency": 3}
    yield "one_bit.png", grey.convert("1"), {}
    yield "rgb.bmp", rgb, {}
    yield "rgb.webp", rgb, {"lossless": True}
    yield "rgba.webp", rgba, {"lossless": True}
    yield "frames.gif", palette, {"save_all": True, "append_images": [Image.fromarray(255 - formula(9, 13)).quantize(16)]}
    yield "soft.jpg", soft, {"quality": 90}
    yield "grey.jpg", soft.convert("L"), {"quality": 90}
    yield "turned.jpg", soft, {"quality": 90, "exif": turned.tobytes(), "subsampling": 0}
    yield "cmyk.jpg", soft.convert("CMYK"), {"quality": 90}
    yield "soft.webp", soft, {"quality": 90}


def read(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return np.asarray(image.convert("RGB"))


def main():
    folder = pathlib.Path(sys.argv[1])
    read_as, resized = {}, []
    for name, image, options in files():
        buffer = io.BytesIO()
        image.save(buffer, name.split(".")[1].replace("jpg", "jpeg"), **options)
        (folder / name).write_bytes(buffer.getvalue())
        pixels = read(buffer.getvalue())
        read_as[name] = {"size": list(pixels.shape[:2]), "pixels": text(pixels)}
    for filter in [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS]:
        for (height, width), (to_height, to_width) in [((9, 13), (16, 16)), ((40, 60), (17, 23)), ((40, 60), (40, 7)), ((5, 200), (11, 12)), ((1, 1), (3, 2)), ((57, 33), (32, 24)), ((44, 24), (11, 8)), ((34, 17), (21, 36)), ((22, 24), (35, 43)), ((25, 43), (5, 29))]:
            image = Image.fromarray(formula(height, width)).resize((to_width, to_height), filter)
            resized.append({"filter": int(filter), "from": [height, width], "to": [to_height, to_width], "pixels": text(np.asarray(image))})
    (folder / "pictures.json").write_text(json.dumps({"read": read_as, "resized": resized}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
