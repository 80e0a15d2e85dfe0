#!/usr/bin/env python3
"""Logits of llama.cpp for a GGUF file, through the C functions that the package xllamacpp exports.

    llama_cpp.py MODEL.gguf 1,2,3         prints the size of the vocabulary and then the logits of all positions, one position a line
    llama_cpp.py MODEL.gguf --text TEXT   prints the ids of TEXT, with the tokens that belong around it

Structures are passed as large opaque blocks of which only the first, stable fields are touched, so that the script does not
depend on the release.
"""
import ctypes, glob, os, signal, sys
import xllamacpp


class Opaque(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


def main():
    signal.alarm(120)  # a failed assertion of ggml can hang while it looks for a debugger
    path = sys.argv[1]
    text = sys.argv[3].encode() if sys.argv[2] == "--text" else None
    ids = [] if text is not None else [int(i) for i in sys.argv[2].split(",")]
    lib = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0])
    lib.llama_model_default_params.restype = Opaque
    lib.llama_context_default_params.restype = Opaque
    lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Opaque]
    lib.llama_model_load_from_file.restype = ctypes.c_void_p
    lib.llama_init_from_model.argtypes = [ctypes.c_void_p, Opaque]
    lib.llama_init_from_model.restype = ctypes.c_void_p
    lib.llama_batch_init.restype = Batch
    lib.llama_decode.argtypes = [ctypes.c_void_p, Batch]
    lib.llama_get_logits_ith.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    lib.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
    lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
    lib.llama_model_get_vocab.restype = ctypes.c_void_p
    lib.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]
    lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]

    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    if not model:
        sys.exit("llama.cpp does not load " + path)
    vocab = lib.llama_model_get_vocab(model)
    if text is not None:
        tokens = (ctypes.c_int32 * (len(text) + 8))()
        n = lib.llama_tokenize(vocab, text, len(text), tokens, len(tokens), True, True)
        print(*tokens[:n])
        sys.stdout.flush()
        os._exit(0)
    params = lib.llama_context_default_params()
    for i in range(3):  # n_ctx, n_batch, n_ubatch
        params.words[i] = 512
    context = lib.llama_init_from_model(model, params)
    if not context:
        sys.exit("llama.cpp makes no context for " + path)
    vocabulary = lib.llama_vocab_n_tokens(vocab)
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if lib.llama_decode(context, batch):
        sys.exit("llama.cpp does not decode")
    print(vocabulary)
    for i in range(len(ids)):
        print(*lib.llama_get_logits_ith(context, i)[:vocabulary])
    sys.stdout.flush()
    os._exit(0)


main()
