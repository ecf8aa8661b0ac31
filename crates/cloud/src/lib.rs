//! Stores in object storage (`s3://`, `gs://`, `az://`) and on web servers (`https://`), as a medium of the store.
